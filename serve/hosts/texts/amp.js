import { fileURLToPath } from "node:url"

// the last words of the agent in a turn's messages
function lastWords(messages) {
  const said = messages?.findLast((one) => one.role === "assistant")?.content ?? []
  return [said].flat().map((one) => one?.text ?? (typeof one === "string" ? one : "")).join("")
}

// a tool's result with a note after it; null where it has no place for one
function withNote({ status, error, output }, note) {
  if (typeof output === "string") return { status, error, output: `${output}\n\n${note}` }
  if (typeof output?.output !== "string") return null
  return { status, error, output: { ...output, output: `${output.output}\n\n${note}` } }
}

export default function (amp) {
  const started = new Set()
  const kept = new Map() // thread -> notes that no tool's result had a place for
  const root = amp.system?.workspaceRoot?.toString()
  const cwd = root?.startsWith("file:") ? fileURLToPath(root) : (root ?? process.cwd())
  const tell = (name, thread, more) =>
    ask({ hook_event_name: name, session_id: thread.id, cwd, ...more })

  amp.on("agent.start", async ({ thread, message, id }) => {
    const notes = kept.get(thread.id) ?? []
    kept.delete(thread.id)
    if (!started.has(thread.id)) {
      started.add(thread.id)
      notes.push(await tell("SessionStart", thread, { source: "startup" }))
    }
    notes.push(await tell("UserPromptSubmit", thread, { prompt: message, turn_id: String(id) }))
    const content = notes.filter(Boolean).join("\n\n")
    return content ? { message: { content, display: false } } : {}
  })

  // `tool.call` is left alone: whoever answers it decides whether the tool runs, and may overrule
  // the user's own permissions. So a rule about a tool comes with its result
  amp.on("tool.result", async (event) => {
    const { thread, toolUseID, tool, input, status, error, output } = event
    const used = { tool_name: tool, tool_input: input, tool_use_id: toolUseID }
    const notes = [await tell("PreToolUse", thread, used)]
    const came =
      status === "error"
        ? ["PostToolUseFailure", { error: error ?? String(output ?? "") }]
        : ["PostToolUse", { tool_response: status === "cancelled" ? { interrupted: true } : output }]
    notes.push(await tell(came[0], thread, { ...used, ...came[1] }))
    const note = notes.filter(Boolean).join("\n\n")
    if (!note) return undefined
    const told = withNote(event, note)
    if (!told) kept.set(thread.id, [...(kept.get(thread.id) ?? []), note])
    return told ?? undefined
  })

  amp.on("agent.end", async ({ thread, messages }) => {
    await tell("Stop", thread, { last_assistant_message: lastWords(messages) })
  })
}
