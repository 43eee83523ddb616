"""
Instructions: the rules of a project as a block of the file that its agents read (CLAUDE.md,
AGENTS.md), each line with its speaker and date.

The block has rules and decisions, memories that the user accepted, and the commands that passed. It
has no text of a tool or a web page, and no unconfirmed text. All else in the file stays.
"""

from pathlib import Path

from serve.hooks import brief as briefs
from serve.hooks import earlier_turns, habits
from serve.reader.filters import Filter
from serve.reader.held import is_held
from serve.reader.memory_json import role
from serve.reader.view import View
from store.home.errors import ConfigError, InvalidInput
from store.home.instants import isoformat
from store.home.projects import SHARED
from store.memories.memory import Memory
from store.text.excerpt import one_line
from store.text.frame import RULES_BEGIN

FILES = ("CLAUDE.md", "AGENTS.md")  # that a page may write
MOST = 60  # lines
LONGEST = 300  # characters of a text
_FIRST = f"{RULES_BEGIN} (written by mnemolog; `mnemolog brief --write` replaces this block) -->"
_MOST_BYTES = 1 << 20


def instructions(view: View, conditions: Filter) -> str:
    """Return a project's rules, decisions and commands as Markdown; "" where there are none."""
    binding = [
        memory
        for memory in briefs.binding(view, conditions)
        if not is_held(memory) and not view.is_over(memory) and SHARED not in (memory.project or "")
    ][:MOST]
    parts = (
        ("Rules", [_line(memory) for memory in binding if role(memory) == "rule"]),
        ("Decisions", [_line(memory) for memory in binding if role(memory) != "rule"]),
        (
            "Commands that worked",
            [
                f"- {effort}: `{_plain(str(command))}`"
                for commands in habits.commands(earlier_turns.recent_turns(view, conditions))
                for effort, command in commands.items()
            ],
        ),
    )
    sections = [f"### {title}\n\n" + "\n".join(lines) for title, lines in parts if lines]
    return "\n\n".join(["## What holds in this project", *sections]) if sections else ""


def write(path: Path, block: str) -> None:
    """Write a block into a file, replacing an existing block; all else in it stays.

    Raise InvalidInput where there is nothing to write, ConfigError for a file that is no text or
    cannot be written.
    """
    from serve.connect.text_edits import put_marked  # a slow import, with the settings editors

    if not block:
        raise InvalidInput("nothing was laid down here: there is no rule and no decision to write")
    try:
        data = path.read_bytes() if path.exists() else b""
        if len(data) > _MOST_BYTES:
            raise ConfigError(f"{path} is over {_MOST_BYTES:,} bytes: name another file")
        path.write_bytes(put_marked(data.decode(), block, _FIRST).encode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no UTF-8 text: name another file") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror})") from error


def _line(memory: Memory) -> str:
    text = {"user": "you", "agent": "an agent"}.get(memory.trust, memory.trust)
    source = f"{text}, {isoformat(memory.created_at)[:10]}, {memory.id[:10]}"
    return f"- {_plain(memory.content)} *({source})*"


def _plain(text: str) -> str:
    """Return a text in one line that cannot end our block or begin a comment."""
    return one_line(text, LONGEST).replace("<!--", "<! --").replace("-->", "-- >")
