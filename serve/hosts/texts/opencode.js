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

export const Mnemolog = async ({ client, directory }) => {
  const started = new Set()
  const lastWords = new Map() // session -> what its agent said last
  // session -> its notes, each where it was told: `at` is a user message or a tool call. They go into
  // the requests and not into the history, always at the same place, so that the provider's cache of
  // what stands before them stays valid
  const notes = new Map()
  let places = false // whether this OpenCode lets us place them
  // session -> the one its user talks in: a subagent has a session of its own, whose prompt the model
  // wrote, and what it does belongs to the session that it works for
  const roots = new Map()
  const rootOf = async (session) => {
    if (!roots.has(session)) {
      let parent
      try {
        parent = (await client.session.get({ path: { id: session } })).data.parentID
      } catch {} // an OpenCode that does not tell
      roots.set(session, parent ? await rootOf(parent) : session)
    }
    return roots.get(session)
  }
  const tell = async (name, session, more) => {
    const root = await rootOf(session)
    const agent = root === session ? {} : { agent_id: session }
    return ask({ hook_event_name: name, session_id: root, ...agent, cwd: directory, ...more })
  }
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
  const used = async (name, input, more) => {
    const tool = { tool_name: input?.tool, tool_use_id: input?.callID, ...more }
    if (input?.sessionID) keep(input.sessionID, await tell(name, input.sessionID, tool), input.callID)
  }
  return {
    "chat.message": async (input, output) => {
      const session = input?.sessionID
      const parts = (output?.parts ?? []).filter((one) => one.type === "text" && !one.synthetic)
      const prompt = parts.map((one) => one.text).join("\n")
      if (!session || !prompt || (await rootOf(session)) !== session) return
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
    "tool.execute.before": (input, output) => used("PreToolUse", input, { tool_input: output?.args }),
    "tool.execute.after": async (input, output) => {
      const { content, isError, metadata } = output ?? {}
      // what a tool of MCP gives, pictures perhaps, stays here
      const tool_response = content ? { isError: isError === true } : { output: output?.output, metadata }
      await used("PostToolUse", input, { tool_input: input?.args, tool_response })
    },
    "experimental.text.complete": async (input, output) => {
      if (input?.sessionID) lastWords.set(input.sessionID, output?.text)
    },
    // OpenCode ends; a session that is taken up again begins anew, as its notes are gone
    dispose: async () => {
      await Promise.all([...started].map((session) => tell("SessionEnd", session, { reason: "other" })))
    },
    event: async ({ event }) => {
      const session = event?.properties?.sessionID ?? event?.properties?.info?.id
      if (!session) return
      if (event.type === "session.compacted") {
        notes.delete(session) // the core tells again what matters
        if (started.has(session)) await start(session, "compact")
      }
      if (event.type === "session.idle" && started.has(session)) {
        const last_assistant_message = lastWords.get(session)
        lastWords.delete(session)
        await tell("Stop", session, { last_assistant_message })
      }
      if (event.type === "session.deleted") {
        notes.delete(session)
        if (started.delete(session)) await tell("SessionEnd", session, { reason: "other" })
      }
    },
  }
}
