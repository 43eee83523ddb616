"""
The part of a prompt that a person typed.

Hosts, their hooks and their editors write into the text of a prompt: as tags of their own, as a
heading before the request, as a whole message in the user's name. All of it is removed here, for
transcripts as for hooks. Tags are named in full: a person may write about `<div>`.
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
# Cursor's news of a task that ended, with a request of its own below
_NOTIFIED = re.compile(r"\A(?:<timestamp>[^<]*</timestamp>\s*)?<system_notification>")
# what buttons of Cursor and of VS Code add to the request that they are
_BUTTONS = re.compile(
    r", it is attached for your reference\. Do NOT edit the plan file itself\."
    r"|\s?To-do's from the plan have already been created[.,] [Dd]o not create them again\."
    r"(?: Mark them as in_progress as you work, starting with the first one\.)?"
    r"(?: Don't stop until you have completed all the to-dos\.)?"
    r"|(?<=^How can I resolve this\?) If you propose a fix, please make it concise\.",
    re.MULTILINE,
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def human_text(text: str) -> str:
    """Return the part of a prompt that a person typed, or that a button says for them; empty if a
    machine wrote all of it.
    """
    return without_buttons(unwrapped(text))


def without_buttons(text: str) -> str:
    """Return a request without what the button that made it adds to it."""
    return _BUTTONS.sub("", text).strip()


def unwrapped(text: str) -> str:
    """Return a prompt without what hosts write around it; empty if a machine wrote all of it."""
    if _NOTIFIED.match(text):
        return ""
    text = _REMEMBER.sub("", _TAGGED.sub("", text)).strip()
    text = _EDITOR.sub("", _APPENDED.sub("", text)).strip()
    while marker := _MARKER.match(text):
        text = text[marker.end() :]
    return "" if text.startswith(OPENINGS) else text[:MAX_TEXT].strip()


def unquote_prompt(prompt: str) -> str:
    """Return a prompt without the quotes that `opencode run` puts around one of several words."""
    quoted = _QUOTED.fullmatch(prompt)
    return quoted[1].replace('\\"', '"') if quoted else prompt
