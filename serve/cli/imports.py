"""`mnemolog import` and `export`: memories from elsewhere, and all of them out again."""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from serve.cli import output, processes, session
from serve.cli.session import Session
from store.errors import SourceError
from store.tenant import checked_project

if TYPE_CHECKING:
    from store.commands import Counts, Draft
    from store.importers.session import Turn

Command = TypeVar("Command", bound=Callable[..., Any])

_SKIPS_SHOWN = 5
_project = click.option("--project", help="The project they belong to; else what the source says.")
_build = click.option("--build", "and_build", is_flag=True, help="Build when all is read.")


def _common(command: Command) -> Command:
    return _project(_build(output.json_option(command)))


@click.group(name="import", epilog=output.example("mnemolog import git . --since 2026-01-01"))
def import_() -> None:
    """Read memories from elsewhere; what was read before is left alone."""


@import_.command(epilog=output.example("mnemolog import git . --limit 500 --build"))
@click.argument("path", type=click.Path(path_type=Path), default=".")
@click.option("--since", help="What git takes: 2026-01-31, '3 months ago'.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the newest commits.")
@_common
@click.pass_obj
def git(
    session_: Session, /, path: Path, since: str | None, limit: int | None, **options: Any
) -> None:
    """Read the history of a repository: what was changed, fixed and decided, and why."""
    from store.importers.git import drafts

    read = partial(drafts, path, since=since, limit=limit)
    _import(session_, lambda project, on_skip: read(project=project), **options)


@import_.command("claude-code", epilog=output.example("mnemolog import claude-code --build"))
@click.argument("path", type=click.Path(path_type=Path), default="~/.claude/projects")
@_common
@click.pass_obj
def claude_code(session_: Session, /, path: Path, **options: Any) -> None:
    """Read Claude Code's session transcripts: a file, a project's folder or all of them."""
    from store.importers import claude_code as host

    _import_sessions(session_, host, path.expanduser(), **options)


@import_.command(epilog=output.example("mnemolog import markdown CLAUDE.md docs/adr"))
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH..."
)
@_common
@click.pass_obj
def markdown(session_: Session, /, paths: tuple[Path, ...], **options: Any) -> None:
    """Read Markdown notes: CLAUDE.md, AGENTS.md, decision records, folders of notes."""
    from store.importers.markdown import drafts

    def read(project: str | None, on_skip: Callable[[str], None]) -> "Iterator[Draft]":
        for path in paths:
            yield from drafts(path, project=project, on_skip=on_skip)

    _import(session_, read, **options)


@import_.command(epilog=output.example("mnemolog import jsonl memories.jsonl"))
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-")
@_common
@click.pass_obj
def jsonl(session_: Session, /, file: Path, **options: Any) -> None:
    """Read JSON Lines, as `mnemolog export` writes them; `-` is standard input."""
    from store.importers.jsonl import drafts

    source = standard_input() if str(file) == "-" else file
    _import(session_, lambda project, on_skip: drafts(source, project=project), **options)


def standard_input() -> Path:
    """Return standard input as a path; what comes in is never copied to a file, redacted or not."""
    path = Path("/dev/stdin")
    if not path.exists():
        raise SourceError("this system has no path for standard input: name a file")
    return path


Read = Callable[[str | None, Callable[[str], None]], "Iterable[Draft]"]


class Transcripts(Protocol):
    """What reads a host's transcripts: `store.importers.claude_code` and its like."""

    AGENT: str

    def files(self, source: Path, /) -> "list[Path]": ...

    def turns(self, path: Path, on_skip: Callable[[str], None], /) -> "Iterator[Turn]": ...


def _import_sessions(
    session_: Session,
    host: Transcripts,
    source: Path,
    *,
    project: str | None,
    and_build: bool,
    as_json: bool,
) -> None:
    from store import commands
    from store.importers.session import Sessions

    settings = session_.settings()
    skipped: list[str] = []
    belongs = checked_project(project) if project is not None else None
    paths = host.files(source)
    with session.open_or_make(settings) as log:
        sessions = Sessions(log, host.AGENT, belongs, session.now())
        events = sessions.events(_each(paths, quiet=as_json), host.turns, skipped.append)
        counts = commands.import_drafts(log, events, session.now())
    _skipped(skipped)
    numbers = {
        "sessions": sessions.sessions,
        "turns": sessions.turns,
        "live": sessions.live,
        "added": counts.added,
        "known": counts.known,
        "refused": counts.refused,
        "skipped": len(skipped),
    }
    if as_json:
        output.emit(numbers)
    else:
        live = f", {sessions.live} of them heard live" if sessions.live else ""
        output.say(
            f"{sessions.turns} turns of {sessions.sessions} sessions{live}: "
            f"{counts.added} events added, {counts.known} known, {counts.refused} refused, "
            f"{len(skipped)} skipped"
        )
        if counts.added and not and_build:
            output.note("next: `mnemolog build`, so that recall finds them fast")
    if and_build:
        code = processes.build(settings, quiet=as_json)
        click.get_current_context().exit(code)


def _skipped(sentences: list[str]) -> None:
    for sentence in sentences[:_SKIPS_SHOWN]:
        output.note(f"skipped: {output.clean(sentence)}")
    if len(sentences) > _SKIPS_SHOWN:
        output.note(f"skipped: {len(sentences) - _SKIPS_SHOWN} more")


def _each(paths: "list[Path]", *, quiet: bool) -> "Iterator[Path]":
    """Yield the files of transcripts, saying on a terminal how many there are and which is read."""
    if quiet or not sys.stderr.isatty():
        yield from paths
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(paths, description="sessions")


def _import(
    session_: Session, read: Read, *, project: str | None, and_build: bool, as_json: bool
) -> None:
    from store import commands

    settings = session_.settings()
    skipped: list[str] = []
    belongs = checked_project(project) if project is not None else None
    with session.open_or_make(settings) as log:
        drafts = _counted(read(belongs, skipped.append), quiet=as_json)
        counts = commands.import_drafts(log, drafts, session.now())
    _skipped(skipped)
    _tell(counts, len(skipped), as_json=as_json, next_step=not and_build)
    if and_build:
        code = processes.build(settings, quiet=as_json)
        click.get_current_context().exit(code)


def _tell(counts: "Counts", skipped: int, *, as_json: bool, next_step: bool) -> None:
    numbers = {
        "added": counts.added,
        "known": counts.known,
        "refused": counts.refused,
        "skipped": skipped,
    }
    if as_json:
        output.emit(numbers)
        return
    output.say(", ".join(f"{count} {what}" for what, count in numbers.items()))
    if next_step and counts.added:
        output.note("next: `mnemolog build`, so that recall finds them fast")


def _counted(drafts: "Iterable[Draft]", *, quiet: bool) -> "Iterator[Draft]":
    """Yield the drafts, saying on a terminal how many were read."""
    if quiet or not sys.stderr.isatty():
        yield from drafts
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.completed} read"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("read", total=None)
        for draft in drafts:
            yield draft
            progress.advance(task)


@click.command(epilog=output.example("mnemolog export --output memories.jsonl"))
@click.option("--output", "file", default="-", metavar="FILE|-", help="Where to; else stdout.")
@click.option("--all-states", is_flag=True, help="Also archived, superseded and forgotten ones.")
@click.option("--project", help="Only this project's.")
@output.json_option
@click.pass_obj
def export(
    session_: Session, /, file: str, all_states: bool, project: str | None, as_json: bool
) -> None:
    """Write the memories as JSON Lines, which `import jsonl` takes back.

    Of a forgotten memory only its id is written.
    """
    from store.export import export as exported

    belongs = checked_project(project) if project is not None else None
    settings = session_.settings()
    tenant, now = session.chosen(settings), session.now()
    with session.open_log(settings) as log:
        lines = exported(log, now, all_states=all_states, project=belongs)
        if file == "-":
            session.note_copy(tenant, "export", "stdout", now)
            for line in lines:
                click.echo(line)
            return
        written = list(lines)
    output.write(Path(file), b"".join(line + b"\n" for line in written))
    session.note_copy(tenant, "export", str(Path(file).absolute()), now)
    if as_json:
        output.emit({"file": file, "memories": len(written)})
    else:
        output.say(f"{len(written)} memories written to {file}")
