const KEPT = 24000 // characters of notes that a session's requests hold: the newest

// a message with a note at its end, or after the result of the tool it was told at; null where it
// has no place for it. Copies: what OpenCode stores stays as it is
function withNote(message, { at, text }) {
  const { info, parts } = message
  if (info?.id === at) return { info, parts: [...parts, { type: "text", text, synthetic: true }] }
  const place = parts?.findIndex((one) => one.type === "tool" && one.callID === at) ?? -1
  const state = parts?.[place]?.state
  const result = ["output", "error"].find((name) => typeof state?.[name] === "string")
  if (!result) return null
  const told = { ...parts[place], state: { ...state, [result]: `${state[result]}\n\n${text}` } }
  return { info, parts: parts.with(place, told) }
}

export const Mnemolog = async ({ directory }) => {
  const started = new Set()
  // session -> its notes, each where it was told: `at` is a user message or a tool call. They go into
  // the requests and not into the history, always at the same place, so that the provider's cache of
  // what stands before them stays valid
  const notes = new Map()
  let places = false // whether this OpenCode lets us place them
  const tell = (name, session, more) =>
    ask({ hook_event_name: name, session_id: session, cwd: directory, ...more })
  const keep = (session, text, at) => {
    if (!text) return
    const kept = [...(notes.get(session) ?? []), { text, at }]
    while (kept.length > 1 && kept.map((one) => one.text).join("").length > KEPT) kept.shift()
    notes.set(session, kept)
  }
  const start = async (session, source, at) => {
    if (started.has(session) && source === "startup") return
    started.add(session)
    keep(session, await tell("SessionStart", session, { source }), at)
  }
  return {
    "chat.message": async (input, output) => {
      const session = input?.sessionID
      const parts = (output?.parts ?? []).filter((one) => one.type === "text" && !one.synthetic)
      const prompt = parts.map((one) => one.text).join("\n")
      if (!session || !prompt) return
      const at = output?.message?.id ?? input?.messageID
      await start(session, "startup", at)
      keep(session, await tell("UserPromptSubmit", session, { prompt }), at)
    },
    "experimental.chat.messages.transform": async (input, output) => {
      places = true
      const messages = output?.messages ?? []
      const asked = messages.findLast((one) => one.info?.role === "user")
      for (const note of notes.get(asked?.info?.sessionID) ?? []) {
        let place = messages.findLastIndex((one) => withNote(one, note))
        if (place < 0) {
          note.at = asked.info.id // told before any prompt, or at what is no part of the history
          place = messages.findLastIndex((one) => one.info?.id === note.at)
        }
        messages[place] = withNote(messages[place], note)
      }
    },
    // an OpenCode from before the hook above
    "experimental.chat.system.transform": async (input, output) => {
      if (places) return
      output?.system?.push(...(notes.get(input?.sessionID) ?? []).map((one) => one.text))
    },
    "tool.execute.before": async (input, output) => {
      const tool = { tool_name: input?.tool, tool_input: output?.args, tool_use_id: input?.callID }
      keep(input?.sessionID, await tell("PreToolUse", input?.sessionID, tool), input?.callID)
    },
    "tool.execute.after": async (input, output) => {
      const tool = { tool_name: input?.tool, tool_input: input?.args, tool_use_id: input?.callID }
      const tool_response = { output: output?.output, metadata: output?.metadata }
      const after = { ...tool, tool_response }
      keep(input?.sessionID, await tell("PostToolUse", input?.sessionID, after), input?.callID)
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
