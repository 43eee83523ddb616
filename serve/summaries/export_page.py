"""
The page `mnemolog export --format markdown` writes: all memories for people to read.

By project and kind, each memory's text as a quote, so that no line of it becomes a heading of the
page. What cannot be seen or turns a line around is left out.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from serve.formatting import sanitize
from store.home.instants import isoformat
from store.memories.memory import ACTIVE, Memory


def markdown(memories: Iterable[Memory], now: int) -> Iterator[str]:
    """Yield the page's lines; some are several, with the ends between them."""
    yield f"# Memories, {isoformat(now)[:10]}"
    ordered = sorted(memories, key=lambda one: (one.project or "", one.kind, one.seq))
    for project, of_project in groupby(ordered, key=lambda one: one.project):
        yield f"\n## {project or 'No project'}"
        for kind, of_kind in groupby(of_project, key=lambda one: one.kind):
            yield f"\n### {kind.capitalize()}"
            for memory in of_kind:
                yield from _entry(memory)


def _entry(memory: Memory) -> Iterator[str]:
    told = [isoformat(memory.created_at)[:10], f"`{memory.id}`", f"said by {memory.trust}"]
    told += [] if memory.state == ACTIVE else [memory.state]
    told += [] if memory.key is None else [f"key `{memory.key}`"]
    told += [f"`{tag}`" for tag in memory.tags]
    yield f"\n{' '.join(sanitize(', '.join(told)).split())}\n"
    beside = {"Context": memory.context, "Action": memory.action, "Result": memory.result}
    texts = [memory.content, *(f"{name}: {text}" for name, text in beside.items() if text)]
    yield "\n>\n".join(_quote(sanitize(text)) for text in texts)


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
