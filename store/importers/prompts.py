"""
What a person typed of a prompt.

Hosts, their hooks and their editors write into the text of a prompt: as tags of their own, as a
heading before the request, as a whole message in the user's name. All of it is taken out here, for
transcripts as for hooks. Tags are named in full: a person writes about `<div>`, and means it.
"""

import re

MAX_TEXT = 16_000  # characters kept of one message

_CLAUDE_CODE = """system-reminder local-command-stdout local-command-stderr local-command-caveat
    command-name command-message command-args command-contents bash-input bash-stdout bash-stderr
    task-notification user-prompt-submit-hook ide_opened_file ide_selection ide_diagnostics
    new-diagnostics session-start-hook"""
_CODEX = """environment_context user_instructions user_shell_command turn_aborted user_action
    subagent_notification hook_prompt codex_internal_context goal_context"""
_GEMINI = "hook_context session_context state_snapshot loaded_context"
TAGS = (*_CLAUDE_CODE.split(), *_CODEX.split(), *_GEMINI.split())
OPENINGS = (
    "Caveat: The messages below",
    "Stop hook feedback:",
    "This session is being continued from a previous conversation",
    "UserPromptSubmit hook additional context:",
    "# AGENTS.md instructions for ",
    "Another language model started to solve this problem",
)

_TAGGED = re.compile(rf"<({'|'.join(TAGS)})(?:\s[^<>]*)?>.*?(?:</\1>|\Z)", re.DOTALL)
_MARKER = re.compile(r"^\[(?:Request interrupted by user[^\]]*|Image #\d+|Pasted text[^\]]*)\]\s*")
_REMEMBER = re.compile(r"</?user-memory-input>")  # "# always use pnpm": the words are the user's
# Gemini CLI appends the files that a prompt names by @
_APPENDED = re.compile(
    r"--- Content from referenced files ---.*?(?:--- End of content ---|\Z)", re.DOTALL
)
# Codex in an editor
_EDITOR = re.compile(
    r"\A# (?:Context from my IDE setup|Files mentioned by the user):.*?"
    r"^## My request for Codex:[ \t]*",
    re.DOTALL | re.MULTILINE,
)


def typed(text: str) -> str:
    """Return what a person typed of a prompt; nothing where a machine wrote all of it."""
    text = _REMEMBER.sub("", _TAGGED.sub("", text)).strip()
    text = _EDITOR.sub("", _APPENDED.sub("", text)).strip()
    while marker := _MARKER.match(text):
        text = text[marker.end() :]
    return "" if text.startswith(OPENINGS) else text[:MAX_TEXT].strip()
