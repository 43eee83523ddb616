"""
A rule's words, read once: the commands it forbids, those it wants, and when it matters.

"Use pnpm, never npm" forbids `npm` and wants `pnpm`; "always run ruff before committing" wants
`ruff` on the occasion of a commit; "don't edit generated/*.py" forbids to touch files. What is in
doubt names nothing: the rule is recalled all the same.
"""

from dataclasses import dataclass
from functools import lru_cache

from serve.lessons.patterns import Command, Occasion
from serve.lessons.reading import read
from store.log.event_kinds import Effort

MAX_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Wording:
    """What a rule names. Files are globs: `untouched` are not to be edited, `files` are those whose
    editing it is about.
    """

    forbidden: tuple[Command, ...] = ()
    wanted: tuple[Command, ...] = ()
    efforts: tuple[Effort, ...] = ()  # wanted too: "run the tests before committing"
    occasions: tuple[Occasion, ...] = ()
    untouched: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def names_anything(self) -> bool:
        return bool(self.forbidden or self.occasions or self.untouched or self.files)


@lru_cache(maxsize=8_192)  # the same rules are read from every snapshot and tail
def wording(text: str) -> Wording:
    """Return what a rule's text names; an empty one where it names nothing for sure."""
    said = read(text[:MAX_CHARS])
    wanted = frozenset(said.wanted)
    occasions = [one for one in dict.fromkeys(said.occasions) if one.command not in wanted]
    efforts = dict.fromkeys(said.efforts) if occasions else {}
    matters = {one.effort for one in occasions}
    return Wording(
        tuple(one for one in dict.fromkeys(said.forbidden) if one not in wanted),
        tuple(dict.fromkeys(said.wanted)),
        tuple(one for one in efforts if one not in matters),
        tuple(occasions),
        tuple(dict.fromkeys(said.untouched)),
        tuple(dict.fromkeys(said.files)),
    )
