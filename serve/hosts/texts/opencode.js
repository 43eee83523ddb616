// written by `mnemolog connect opencode`; `mnemolog disconnect opencode` deletes it
import { spawn } from "node:child_process"

const COMMAND = COMMAND_OF_THE_CLIENT
const WAIT_MS = 5000
const KEPT = 24000 // characters of notes that a session's requests hold: the newest

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

export const Mnemolog = async ({ directory }) => {
  const started = new Set()
  // session -> the notes that each of its requests holds: what stands in the system prompt is no
  // part of the history, and nothing is told twice in a session
  const notes = new Map()
  const tell = (name, session, more) =>
    ask({ hook_event_name: name, session_id: session, cwd: directory, ...more })
  const keep = (session, text) => {
    if (!text) return
    const kept = [...(notes.get(session) ?? []), text]
    while (kept.length > 1 && kept.join("").length > KEPT) kept.shift()
    notes.set(session, kept)
  }
  const start = async (session, source) => {
    if (started.has(session) && source === "startup") return
    started.add(session)
    keep(session, await tell("SessionStart", session, { source }))
  }
  return {
    "chat.message": async (input, output) => {
      const session = input?.sessionID
      const parts = (output?.parts ?? []).filter((one) => one.type === "text" && !one.synthetic)
      const prompt = parts.map((one) => one.text).join("\n")
      if (!session || !prompt) return
      await start(session, "startup")
      keep(session, await tell("UserPromptSubmit", session, { prompt }))
    },
    "experimental.chat.system.transform": async (input, output) => {
      output?.system?.push(...(notes.get(input?.sessionID) ?? []))
    },
    "tool.execute.before": async (input, output) => {
      const tool = { tool_name: input?.tool, tool_input: output?.args, tool_use_id: input?.callID }
      keep(input?.sessionID, await tell("PreToolUse", input?.sessionID, tool))
    },
    "tool.execute.after": async (input, output) => {
      const tool = { tool_name: input?.tool, tool_input: input?.args, tool_use_id: input?.callID }
      const tool_response = { output: output?.output, metadata: output?.metadata }
      const after = { ...tool, tool_response }
      keep(input?.sessionID, await tell("PostToolUse", input?.sessionID, after))
    },
    event: async ({ event }) => {
      const session = event?.properties?.sessionID ?? event?.properties?.info?.id
      if (!session) return
      if (event.type === "session.compacted") {
        notes.delete(session) // the core tells again what matters
        await start(session, "compact")
      }
      if (event.type === "session.idle") await tell("Stop", session, {})
      if (event.type === "session.deleted") {
        notes.delete(session)
        started.delete(session)
        await tell("SessionEnd", session, { reason: "other" })
      }
    },
  }
}
