"""`mnemolog import` and `export`: memories from elsewhere, and all memories back out."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serve.cli import arguments, environment, output, processes
from serve.cli.bulk import watch
from serve.cli.environment import Environment
from serve.cli.store_imports import (
    Sentences,
    build_option,
    import_options,
    read_store,
    show_progress,
    store_command,
    store_places,
    store_summary,
)
from store.home.errors import InvalidInput, SourceError
from store.home.instants import isoformat
from store.importers.memory_stores import MEMORY_STORES
from store.importers.transcript_hosts import TRANSCRIPT_HOSTS, find_transcripts
from store.text.excerpt import plural

if TYPE_CHECKING:
    from store.home.config import Settings
    from store.importers.source_files import Progress
    from store.importers.transcript_events import Sessions
    from store.importers.transcript_hosts import TranscriptHost
    from store.importers.transcript_turn import Skip, Transcript, Turn, Turns
    from store.log.commands import Counts, Draft
    from store.log.event_log import EventLog


_NOTED_EVERY_S = 10  # if standard error is not a terminal


@click.group(name="import", epilog=output.example("mnemolog import git . --since 2026-01-01"))
def import_() -> None:
    """Import memories. What was imported before is left alone."""


@import_.command(epilog=output.example("mnemolog import git . --limit 500 --build"))
@click.argument("path", type=click.Path(path_type=Path), default=".")
@click.option("--since", help="A date that git accepts: 2026-01-31, '3 months ago'.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the newest commits.")
@import_options
@click.pass_obj
def git(
    env: Environment, /, path: Path, since: str | None, limit: int | None, **options: Any
) -> None:
    """Import a repository's history: what was changed, fixed and decided, and why."""
    from store.importers.git import drafts

    def read(project: str | None, on_skip: "Skip", on_progress: "Progress") -> "Iterator[Draft]":
        return drafts(path, project=project, since=since, limit=limit, on_progress=on_progress)

    _import(env, read, "git", "commits", **options)


@import_.command(epilog=output.example("mnemolog import markdown CLAUDE.md docs/adr"))
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH..."
)
@click.option("--mine", is_flag=True, help="Treat them as your own words, even in a repository.")
@import_options
@click.pass_obj
def markdown(env: Environment, /, paths: tuple[Path, ...], mine: bool, **options: Any) -> None:
    """Import Markdown notes: CLAUDE.md, AGENTS.md, decision records, folders of notes.

    Files in a git repository may be anybody's words: they are quoted with their source and are not
    rules. With --mine they count as your words, and their rules become rules.
    """
    from store.importers.markdown import drafts

    def read(project: str | None, on_skip: "Skip", on_progress: "Progress") -> "Iterator[Draft]":
        for path in paths:
            yield from drafts(
                path, project=project, is_mine=mine, on_skip=on_skip, on_progress=on_progress
            )

    _import(env, read, "markdown", "files", **options)


@import_.command(epilog=output.example("mnemolog import jsonl memories.jsonl --dry-run"))
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-")
@click.option("--mine", is_flag=True, help="Take its user's words for yours in a repository too.")
@click.option("--dry-run", is_flag=True, help="Count what would be imported; write nothing.")
@import_options
@click.pass_obj
def jsonl(
    env: Environment,
    /,
    file: Path,
    mine: bool,
    dry_run: bool,
    project: str | None,
    and_build: bool,
    as_json: bool,
) -> None:
    """Import JSON Lines as written by `mnemolog export`; `-` is standard input.

    A new memory gets the state, links and ratings of its line. What a file in a git repository says
    to be the user's words may be anybody's: it is quoted, and no rule, unless you add --mine.
    Without a person, in an agent's shell or without a terminal, it is kept as an agent's.
    """
    from store.importers.jsonl import exported_lines, import_lines, survey

    settings, now = env.settings(), environment.now()
    source = standard_input() if str(file) == "-" else file
    if dry_run:
        with environment.open_if_made(settings) as log:
            counts = survey(log, source, now, project=project)
        _print_counts(counts, 0, as_json=as_json)
        if not as_json:
            output.note("nothing was written")
        return
    with (
        environment.open_or_make(settings) as log,
        watch(settings, log, "import jsonl", asks=not as_json),
    ):
        lines = map(environment.presence().limit, exported_lines(source, is_mine=mine))
        counts = import_lines(log, lines, now, project=project)
    _finish(settings, counts, 0, and_build=and_build, as_json=as_json)


def standard_input() -> Path:
    """Return standard input as a path; its data is never copied to a file, redacted or not."""
    path = Path("/dev/stdin")
    if not path.exists():
        raise SourceError("this system has no path for standard input: give a file")
    return path


Read = Callable[[str | None, "Skip", "Progress"], "Iterable[Draft]"]


def _transcripts(host: "TranscriptHost") -> click.Command:
    """Return the command that imports a host's transcripts."""

    # the importer reports an unreadable path, like any other wrong place
    @click.argument("path", type=click.Path(path_type=Path, readable=False), required=False)
    @click.option("--dry-run", is_flag=True, help="Show what would be imported; write nothing.")
    @import_options
    @click.pass_obj
    def read(
        env: Environment,
        /,
        path: Path | None,
        dry_run: bool,
        project: str | None,
        and_build: bool,
        as_json: bool,
    ) -> None:
        source = host.place(environment.machine().folder) if path is None else path.expanduser()
        if dry_run:
            _survey(env, host, source, project, as_json=as_json)
        else:
            _import_sessions(env, host, source, project, and_build=and_build, as_json=as_json)

    return click.command(
        host.agent,
        help=(
            f"Read {host.title}'s sessions. Every turn becomes an episode, and lasting words of "
            "yours (rules, preferences, decisions, facts) are kept as quotes unless "
            "`remember_words` is off. PATH is a file or folder; the default is where "
            f"{host.title} keeps its sessions, {host.usual}."
        ),
        epilog=output.example(
            f"mnemolog import {host.agent} --dry-run", f"mnemolog import {host.agent} --build"
        ),
    )(read)


for _host in TRANSCRIPT_HOSTS.values():
    import_.add_command(_transcripts(_host))
for _store in MEMORY_STORES.values():
    import_.add_command(store_command(_store))


@import_.command(epilog=output.example("mnemolog import auto --dry-run", "mnemolog import auto"))
@click.option("--dry-run", is_flag=True, help="Show what is here; write nothing.")
@click.option("--yes", is_flag=True, help="Import all of it without asking.")
@click.option("--skip", multiple=True, metavar="NAME", help="Leave this one out; repeatable.")
@build_option
@output.json_option
@click.pass_obj
def auto(
    env: Environment,
    /,
    dry_run: bool,
    yes: bool,
    skip: tuple[str, ...],
    and_build: bool,
    as_json: bool,
) -> None:
    """Find what other programs on this machine remember, and import it.

    Looks where the programs keep their memories and sessions, and in the repository you are in;
    says what it would take and asks.
    """
    if unknown := [name for name in skip if name not in (*TRANSCRIPT_HOSTS, *MEMORY_STORES)]:
        raise InvalidInput(f"{unknown[0]!r} is no importer: `mnemolog import --help` lists them")
    settings = env.settings()
    hosts = [host for host in TRANSCRIPT_HOSTS.values() if host.agent not in skip]
    sessions = {host.agent: transcripts for host in hosts if (transcripts := _sessions_here(host))}
    stores = [
        store for store in MEMORY_STORES.values() if store.name not in skip and store_places(store)
    ]
    found: list[dict[str, Any]] = [
        {"name": name, "sessions": len(transcripts)} for name, transcripts in sessions.items()
    ]
    readable = []
    for store in stores:
        try:
            counts, _, _ = read_store(settings, store, store_places(store), None, True, quiet=True)
        except SourceError as error:
            found.append({"name": store.name, "error": str(error)})
        else:
            readable.append(store)
            row = {"name": store.name, "memories": counts.found, "new": counts.added}
            found.append(row | {"changed": counts.changed, "refused": counts.refused})
    if not as_json:
        _show_found(found)
    if not sessions and not any(row.get("new") or row.get("changed") for row in found):
        if as_json:
            output.emit({"found": found, "imported": False})
        elif found:
            output.note("nothing of it is new")
        return
    asks = not yes and not as_json and sys.stdin.isatty()
    if dry_run or not (yes or (asks and click.confirm("Import all of it?"))):
        if as_json:
            output.emit({"found": found, "imported": False})
        elif found:
            output.note("nothing was written; `mnemolog import auto --yes` imports all of it")
        return
    for name in sessions:
        host = TRANSCRIPT_HOSTS[name]
        source = host.place(environment.machine().folder)
        added, read, skips = _record_sessions(settings, host, source, None, quiet=as_json)
        if not as_json:
            skips.show(f"{name}: skipped")
            output.say(f"{name}: {read.summary}: {plural(added.added, 'event')} added")
    for store in readable:
        counts, skips, refused = read_store(
            settings, store, store_places(store), None, False, quiet=as_json
        )
        if not as_json:
            skips.show(f"{store.name}: left out")
            refused.show(f"{store.name}: refused")
            output.say(f"{store.name}: {store_summary(counts, is_done=True)}")
    if as_json:
        output.emit({"found": found, "imported": True})
    if and_build:
        click.get_current_context().exit(processes.build(settings, quiet=as_json))


def _sessions_here(host: "TranscriptHost") -> "list[Transcript]":
    try:
        return find_transcripts(
            host, host.place(environment.machine().folder), lambda sentence: None
        )
    except SourceError:  # there are none
        return []


def _show_found(found: list[dict[str, Any]]) -> None:
    if not found:
        output.say("nothing of any program that `mnemolog import --help` names is here")
        return
    rows = []
    for source in found:
        if "error" in source:
            text = source["error"]
        elif "sessions" in source:
            text = plural(source["sessions"], "session")
        else:
            text = f"{plural(source['memories'], 'memory')}, {source['new']:,} new"
            text += f", {source['changed']:,} changed" if source["changed"] else ""
            text += f", {source['refused']:,} would be refused" if source["refused"] else ""
        rows.append((source["name"], text))
    output.table(("importer", "found"), rows)


def _sessions(
    settings: "Settings", log: "EventLog | None", host: "TranscriptHost", project: str | None
) -> "Sessions":
    from store.agents import prompt_classifier
    from store.home import pauses
    from store.home.project_context import ProjectContexts
    from store.importers.transcript_events import Sessions

    places, own = ProjectContexts(settings), host.place(environment.machine().folder)
    return Sessions(
        log,
        host.agent,
        project,
        environment.now(),
        intent_of=lambda prompt, before: prompt_classifier.read_intent(prompt, before).intent,
        choices_of=lambda folder: places.of(folder).choices,
        pauses=pauses.read(settings.home),
        own=own if own.is_absolute() else None,
    )


def _survey(
    env: Environment, host: "TranscriptHost", source: Path, project: str | None, *, as_json: bool
) -> None:
    """Show the available transcripts, and how much of them would be new."""
    from store.importers.transcript_events import survey

    settings, skips = env.settings(), Sentences()
    transcripts = find_transcripts(host, source, skips.add)
    with environment.open_if_made(settings) as log:
        sessions = _sessions(settings, log, host, project)
        with _progress(sessions, len(transcripts), quiet=as_json) as each:
            shares = survey(sessions.read(transcripts, each(host.turns), skips.add), log)
    new = sum(share.new for share in shares.values())
    skips.show("skipped")
    if as_json:
        projects = [
            {
                "project": name,
                "sessions": len(share.sessions),
                "turns": share.turns,
                "new": share.new,
                "first": isoformat(share.first),
                "last": isoformat(share.last),
            }
            for name, share in shares.items()
        ]
        output.emit(_counts(sessions) | {"new": new, "skipped": skips.count, "projects": projects})
        return
    output.say(f"{sessions.summary}: {new} new, {skips.count} skipped; nothing was written")
    for name, share in shares.items():
        days = f"{isoformat(share.first)[:10]} to {isoformat(share.last)[:10]}"
        what = f"{plural(share.turns, 'turn')} in {plural(len(share.sessions), 'session')}"
        output.say(f"  {output.clean(name or '(no project)')}: {what}, {share.new} new, {days}")


def _import_sessions(
    env: Environment,
    host: "TranscriptHost",
    source: Path,
    project: str | None,
    *,
    and_build: bool,
    as_json: bool,
) -> None:
    settings = env.settings()
    counts, sessions, skips = _record_sessions(settings, host, source, project, quiet=as_json)
    skips.show("skipped")
    _finish(settings, counts, skips.count, sessions, and_build=and_build, as_json=as_json)


def _record_sessions(
    settings: "Settings", host: "TranscriptHost", source: Path, project: str | None, *, quiet: bool
) -> "tuple[Counts, Sessions, Sentences]":
    from store.log import commands

    skips = Sentences()
    transcripts = find_transcripts(host, source, skips.add)
    with environment.open_or_make(settings) as log:
        sessions = _sessions(settings, log, host, project)
        with _progress(sessions, len(transcripts), quiet=quiet) as each:
            events = sessions.events(transcripts, each(host.turns), skips.add)
            with watch(settings, log, f"import {host.agent}", asks=False):
                counts = commands.import_drafts(log, events, environment.now())
    return counts, sessions, skips


def _counts(sessions: "Sessions") -> dict[str, int]:
    return {
        "sessions": sessions.sessions,
        "turns": sessions.turns,
        "live": sessions.live,
        "off": sessions.off,
        "statements": sessions.statements,
    }


@contextmanager
def _progress(
    sessions: "Sessions", total: int, *, quiet: bool
) -> "Iterator[Callable[[Turns], Turns]]":
    """Yield a wrapper of a reader of transcripts that shows its progress on standard error: a bar
    on a terminal, else a line now and then.
    """
    if quiet:
        yield lambda turns: turns
        return
    if not sys.stderr.isatty():
        yield _with_lines(sessions, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("transcripts, {task.fields[found]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, found="")

        def watch(turns: "Turns") -> "Turns":
            def read(transcript: "Transcript", on_skip: "Skip") -> "Iterator[Turn]":
                for turn in turns(transcript, on_skip):
                    yield turn
                    progress.update(task, found=sessions.summary)
                progress.advance(task)

            return read

        yield watch


def _with_lines(sessions: "Sessions", total: int) -> "Callable[[Turns], Turns]":
    """Return a wrapper of a reader that notes its progress every `_NOTED_EVERY_S`."""
    done, noted = 0, time.monotonic()

    def watch(turns: "Turns") -> "Turns":
        def read(transcript: "Transcript", on_skip: "Skip") -> "Iterator[Turn]":
            nonlocal done, noted
            for turn in turns(transcript, on_skip):
                yield turn
                if time.monotonic() - noted >= _NOTED_EVERY_S:
                    noted = time.monotonic()
                    output.note(f"{done} of {total} transcripts read: {sessions.summary}")
            done += 1

        return read

    return watch


def _import(
    env: Environment,
    read: Read,
    what: str,
    unit: str,
    *,
    project: str | None,
    and_build: bool,
    as_json: bool,
) -> None:
    from store.log import commands

    settings = env.settings()
    skips = Sentences()
    with environment.open_or_make(settings) as log:
        drafts = show_progress(partial(read, project, skips.add), unit, quiet=as_json)
        limited = map(environment.presence().limit, drafts)
        with watch(settings, log, f"import {what}", asks=what != "git" and not as_json):
            counts = commands.import_drafts(log, limited, environment.now())
    skips.show("skipped")
    _finish(settings, counts, skips.count, and_build=and_build, as_json=as_json)


def _finish(
    settings: "Settings",
    counts: "Counts",
    skipped: int,
    sessions: "Sessions | None" = None,
    *,
    and_build: bool,
    as_json: bool,
) -> None:
    """Print the counts of an import, and build; else name the next step."""
    _print_counts(counts, skipped, sessions, as_json=as_json)
    if and_build:
        click.get_current_context().exit(processes.build(settings, quiet=as_json))
    if counts.added and not as_json:
        output.note("next: `mnemolog build` makes recall fast and complete")


def _print_counts(
    counts: "Counts", skipped: int, sessions: "Sessions | None" = None, *, as_json: bool
) -> None:
    numbers = {
        "added": counts.added,
        "known": counts.known,
        "refused": counts.refused,
        "skipped": skipped,
    }
    if as_json:
        output.emit((_counts(sessions) if sessions else {}) | numbers)
        return
    text = ", ".join(f"{count} {name}" for name, count in numbers.items())
    if sessions:
        text = f"{sessions.summary}: {text.replace('added', 'events added')}"
    output.say(text)


@click.command(epilog=output.example("mnemolog export --output memories.jsonl"))
@click.option(
    "--output",
    "file",
    default="-",
    metavar="FILE|-",
    help="The file to write; default: standard output.",
)
@click.option(
    "--all-states", is_flag=True, help="Include archived, superseded and forgotten memories."
)
@click.option("--project", type=arguments.PROJECT, help="Only this project.")
@click.option(
    "--format",
    "form",
    type=arguments.Choice(["jsonl", "markdown", "obsidian", "basic-memory", "claude-memory"]),
    default="jsonl",
    show_default=True,
    help="jsonl for programs, markdown for people; the others are folders of notes.",
)
@output.json_option
@click.pass_obj
def export(
    env: Environment,
    /,
    file: str,
    all_states: bool,
    project: str | None,
    form: str,
    as_json: bool,
) -> None:
    """Write memories as JSON Lines, Markdown or a folder of notes.

    `import jsonl` reads JSON Lines back; `import obsidian`, `basic-memory` and `claude-memory` read
    back the folders, which --output names. A forgotten memory is written as its id only, and left
    out of pages and notes.
    """
    from store.maintenance.export import export as exported
    from store.maintenance.export import memories

    settings = env.settings()
    tenant, now = environment.current_tenant(settings), environment.now()
    if form in ("obsidian", "basic-memory", "claude-memory"):
        _export_notes(env, file, form, project, all_states=all_states, as_json=as_json)
        return
    with environment.open_log(settings) as log:
        shown = None
        lines: Iterable[bytes]
        if form == "markdown":
            from serve.reports.listing import export_markdown

            shown = memories(log, now, all_states=all_states, project=project)
            lines = (line.encode() for line in export_markdown(shown, now))
        else:
            lines = exported(log, now, all_states=all_states, project=project)
        if file == "-":
            environment.note_copy(tenant, "export", "stdout", now)
            for line in lines:
                click.echo(line)
            return
        written = list(lines)
    count = len(written) if shown is None else len(shown)
    output.write(Path(file), b"".join(line + b"\n" for line in written))
    environment.note_copy(tenant, "export", str(Path(file).absolute()), now)
    if as_json:
        output.emit({"file": file, "memories": count})
    else:
        output.say(f"{plural(count, 'memory')} written to {file}")


def _export_notes(
    env: Environment,
    folder: str,
    form: Any,
    project: str | None,
    *,
    all_states: bool,
    as_json: bool,
) -> None:
    """Write a folder of notes; a folder that is not empty is left as it is."""
    from store.maintenance.export import export_lines, export_notes

    top = Path(folder).expanduser()
    if folder == "-":
        raise InvalidInput(f"{form} is a folder of notes: name a new one with --output")
    if top.exists() and not (top.is_dir() and next(top.iterdir(), None) is None):
        raise InvalidInput(f"{top} is not an empty folder: give --output a new one")
    settings = env.settings()
    tenant, now = environment.current_tenant(settings), environment.now()
    with environment.open_log(settings) as log:
        lines = export_lines(log, now, all_states=all_states, project=project)
        files = export_notes(lines, form)
    try:
        for name, data in files.items():
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    except OSError as error:
        raise InvalidInput(f"{top} cannot be written ({error.strerror})") from error
    environment.note_copy(tenant, "export", str(top.absolute()), now)
    many = len(files) - (form == "claude-memory")
    if as_json:
        output.emit({"folder": folder, "memories": many})
    else:
        output.say(f"{plural(many, 'memory')} written to {folder}, a note each")
