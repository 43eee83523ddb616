import { spawn } from "node:child_process"

const COMMAND = COMMAND_OF_THE_CLIENT
const WAIT_MS = 5000

// the client's answer to one event; null where it says nothing, is missing or is too slow
function ask(event) {
  return new Promise((done) => {
    let said = ""
    try {
      const client = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
      const late = setTimeout(() => client.kill(), WAIT_MS)
      const end = () => {
        clearTimeout(late)
        try {
          const answer = JSON.parse(said)
          done(answer?.hookSpecificOutput?.additionalContext ?? answer?.additionalContext ?? null)
        } catch {
          done(null)
        }
      }
      client.on("error", end)
      client.on("close", end)
      client.stdin.on("error", () => {})
      client.stdout.on("data", (bytes) => (said += bytes))
      client.stdin.end(JSON.stringify(event))
    } catch {
      done(null)
    }
  })
}
