"""The commands `share` and `unshare`: memories as files in a repository, for a team."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from serve.cli import arguments, environment, output
from serve.cli.group import FAILED
from store.home.errors import InvalidInput, NotFound
from store.home.projects import git_root
from store.text.excerpt import plural

if TYPE_CHECKING:
    from store.home.config import Settings
    from store.shared.notes import SharedNote

_SIGNS = {"added": "+", "changed": "~", "removed": "-"}


@click.command(
    epilog=output.example(
        "mnemolog share 01KA2B3C4D",
        "mnemolog share",
        "mnemolog share --against origin/main",
        "mnemolog share --trust",
    )
)
@click.argument("ids", nargs=-1, metavar="[ID...]", type=arguments.MEMORY)
@click.option(
    "--against",
    metavar="REF",
    help="Show what this tree adds, changes and removes against a branch or commit.",
)
@click.option(
    "--trust/--no-trust",
    "trust",
    default=None,
    help="Trust what the remote's default branch shares, as an agent's word; or quote it again.",
)
@output.json_option
@click.pass_context
def share(
    context: click.Context,
    ids: tuple[str, ...],
    against: str | None,
    trust: bool | None,
    as_json: bool,
) -> None:
    """Share memories with everybody who has this repository. Each becomes a Markdown file below
    `.mnemolog/memory`, for you to commit. Without an ID, list what the checked-out tree shares.

    Whoever asks from a work tree is told what its files say, on the branch that is checked out; no
    import is needed. It is quoted, as a tool's word, because anybody may send a pull request. With
    --trust, what is on the remote's default branch too may be told as an agent's word; a branch
    under review stays quoted.

    --against reads no home, so it can run in CI: it exits with 1 if a file is no memory, or holds a
    secret.
    """
    root = _root()
    if sum((bool(ids), against is not None, trust is not None)) > 1:
        raise click.UsageError("give IDs, --against or --trust, one of them")
    if against is not None:
        context.exit(_review(root, against, as_json=as_json))
    settings = context.obj.settings()
    if trust is not None:
        _trust(settings, root, is_trusted=trust, as_json=as_json)
    elif ids:
        _share(settings, root, ids, as_json=as_json)
    else:
        _list(settings, root, as_json=as_json)


@click.command(
    epilog=output.example(
        "mnemolog unshare 01KA2B3C4D", "mnemolog unshare .mnemolog/memory/we-deploy-on-3k9f2a.md"
    )
)
@click.argument("notes", nargs=-1, required=True, metavar="ID|FILE...")
@output.json_option
def unshare(notes: tuple[str, ...], as_json: bool) -> None:
    """Share memories no longer. Their files are deleted, for you to commit; your own memories stay.

    An ID is that of the memory, or its beginning; a FILE its path from the root of the repository.
    """
    from store.shared.notes import find_note

    root = _root()
    paths = []
    for name in notes:
        note = find_note(root, name)
        if note is None:
            raise NotFound(f"no file shares {name!r}: `mnemolog share` lists them")
        paths.append(note.path)
    for path in dict.fromkeys(paths):
        (root / path).unlink()
    if as_json:
        output.emit({"deleted": paths})
        return
    for path in paths:
        output.say(f"deleted {output.clean(path)}")
    output.note("commit that to share it no longer")


def _root() -> Path:
    root = git_root(Path.cwd())
    if root is None:
        raise InvalidInput("this folder is in no git repository: memories are shared in one")
    return root


def _share(settings: "Settings", root: Path, ids: tuple[str, ...], *, as_json: bool) -> None:
    from store.log import commands
    from store.shared import notes

    with environment.open_log(settings) as log:
        whole = [commands.resolve(log, prefix) for prefix in dict.fromkeys(ids)]
        with environment.open_reader(settings, log).view() as view:
            memories = [memory for id_ in whole if (memory := view.tail.find(id_)) is not None]
    paths = [notes.write_note(root, memory).relative_to(root).as_posix() for memory in memories]
    if as_json:
        output.emit({"written": paths})
        return
    for path in paths:
        output.say(f"wrote {path}")
    output.note("commit that to share it with all who have the repository")


def _list(settings: "Settings", root: Path, *, as_json: bool) -> None:
    from store.shared.notes import read_notes
    from store.shared.tree import tree_notes

    is_trusted = {
        tree_note.note.path: tree_note.is_reviewed for tree_note in tree_notes(settings.home, root)
    }
    notes = read_notes(root)
    if as_json:
        fields = [
            _fields(shared_note) | {"trusted": is_trusted.get(shared_note.path, False)}
            for shared_note in notes
        ]
        output.emit({"notes": fields})
        return
    for note in notes:
        how = "no memory" if note.problem else "trusted" if is_trusted.get(note.path) else "quoted"
        output.say(f"{how:9}  {output.clean(note.path)}  {_line(note)}")
    if not notes:
        output.say("this tree shares nothing: `mnemolog share ID` does")


def _trust(settings: "Settings", root: Path, *, is_trusted: bool, as_json: bool) -> None:
    from store.home import projects

    if is_trusted:  # an agent that read a poisoned file must not raise its trust
        environment.presence().require_person(
            "trust in what a repository shares", on_dashboard=False
        )
    projects.trust_notes(settings.home, root, is_trusted=is_trusted)
    if as_json:
        output.emit({"trusted": is_trusted})
    elif is_trusted:
        output.say("What the default branch of this repository's remote shares is trusted now.")
    else:
        output.say("All that this repository shares is quoted now.")


def _review(root: Path, ref: str, *, as_json: bool) -> int:
    """Show a tree's changes against a branch or commit; return the exit code."""
    changes = list(_changes(root, ref))
    problems = sum(change.new is not None and change.new.problem != "" for change in changes)
    if as_json:
        fields = [
            {
                "change": change.what,
                "path": change.path,
                "was": _fields(change.old) if change.old else None,
                "is": _fields(change.new) if change.new else None,
            }
            for change in changes
        ]
        output.emit({"against": ref, "changes": fields})
        return FAILED if problems else 0
    for change in changes:
        output.say(f"{_SIGNS[change.what]} {output.clean(change.path)}")
        if change.old is not None:
            output.say(f"    - {_line(change.old)}")
        if change.new is not None:
            output.say(f"    + {_line(change.new)}")
    if not changes:
        output.say(f"the same memories as in {output.clean(ref)}")
    if problems:
        output.note(f"no memory: {plural(problems, 'file')}, see above")
    return FAILED if problems else 0


class _Change(NamedTuple):
    """The change of a file, with its note now and before."""

    path: str
    what: str
    new: "SharedNote | None"
    old: "SharedNote | None"


def _changes(root: Path, ref: str) -> Iterator[_Change]:
    from store.shared.notes import parse_note, read_notes
    from store.shared.tree import note_at, notes_at

    before, now = notes_at(root, ref), {note.path: note for note in read_notes(root)}
    for path in sorted({*before, *now}):
        new = now.get(path)
        if new is None or new.blob != before.get(path):
            old = parse_note(path, note_at(root, ref, path)) if path in before else None
            what = "removed" if new is None else "changed" if old else "added"
            yield _Change(path, what, new, old)


def _fields(note: "SharedNote") -> dict[str, Any]:
    return {
        "path": note.path,
        "id": note.id or None,
        "kind": note.kind,
        "text": note.content,
        "problem": note.problem or None,
    }


def _line(note: "SharedNote") -> str:
    if note.problem:
        return f"NO MEMORY: {note.problem}"
    return f"{note.kind}: {output.one_line(note.content)}"
