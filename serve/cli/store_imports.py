"""
`mnemolog import` from other programs' memory stores, one command per store.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from serve.cli import arguments, environment, output, processes
from serve.cli.bulk import watch
from serve.cli.environment import Environment
from store.home.errors import SourceError
from store.importers.source_files import Progress, no_progress
from store.text.excerpt import plural

if TYPE_CHECKING:
    from store.home.config import Settings
    from store.importers.jsonl import Exported
    from store.importers.memory_store import Found, MemoryStore

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

_SHOWN = 5  # sentences about skipped or refused memories

_project_option = click.option(
    "--project",
    type=arguments.NEW_PROJECT,
    help="The project to assign; default: the one in the source.",
)
build_option = click.option("--build", "and_build", is_flag=True, help="Build afterwards.")


def import_options(command: Command) -> Command:
    """Add the options of all imports: `--project`, `--build` and `--json`."""
    return _project_option(build_option(output.json_option(command)))


class Sentences:
    """The first few of some sentences, and their total number."""

    def __init__(self) -> None:
        self.count, self.first = 0, list[str]()

    def add(self, sentence: str) -> None:
        self.count += 1
        if len(self.first) < _SHOWN:
            self.first.append(sentence)

    def show(self, what: str) -> None:
        for sentence in self.first:
            output.note(f"{what}: {output.clean(sentence)}")
        if self.count > len(self.first):
            output.note(f"{what}: {self.count - len(self.first):,} more")


def store_command(store: "MemoryStore") -> click.Command:
    """Return the command that imports the memories of a store."""

    @click.argument("path", type=click.Path(path_type=Path, readable=False), required=False)
    @click.option("--dry-run", is_flag=True, help="Count what would be imported; write nothing.")
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
        places = [path.expanduser()] if path is not None else store_places(store)
        if not places:
            raise SourceError(
                f"nothing of {store.title} is on this machine ({store.usual}): name the file or "
                "folder that it is in"
            )
        settings = env.settings()
        counts, skipped, refused = read_store(
            settings, store, places, project, dry_run, quiet=as_json, asks=not as_json
        )
        if as_json:
            projects = [
                {"project": name, "memories": many} for name, many in counts.projects.items()
            ]
            output.emit(
                asdict(counts)
                | {
                    "projects": projects,
                    "skipped": skipped.count,
                    "reasons": [*skipped.first, *refused.first],
                    "never_carried": store.left,
                    "dry_run": dry_run,
                }
            )
        else:
            skipped.show("left out")
            refused.show("refused")
            output.say(store_summary(counts, is_done=not dry_run))
            for name, many in sorted(
                counts.projects.items(), key=lambda item: (-item[1], item[0] or "")
            ):
                output.say(f"  {output.clean(name or '(no project)')}: {many:,}")
            output.note(f"never carried: {store.left}")
            if dry_run:
                output.note("nothing was written")
            elif counts.added and not and_build:
                output.note("next: `mnemolog build` makes recall fast and complete")
        if and_build and not dry_run:
            click.get_current_context().exit(processes.build(settings, quiet=as_json))

    return click.command(
        store.name,
        short_help=f"Read {store.title}.",
        help=(
            f"Read {store.title}. PATH is a file or folder; the default is {store.usual}. "
            "Importing again adds what is new and brings texts that changed there. "
            f"Never carried: {store.left}."
        ),
        epilog=output.example(f"mnemolog import {store.name} --dry-run"),
    )(read)


def store_places(store: "MemoryStore") -> list[Path]:
    return store.find(environment.machine().folder, Path.cwd())


def read_store(
    settings: "Settings",
    store: "MemoryStore",
    places: list[Path],
    project: str | None,
    dry_run: bool,
    *,
    quiet: bool,
    asks: bool = False,
) -> tuple["Found", Sentences, Sentences]:
    """Import some places of a store, or with `dry_run` count the changes; return the counts, and
    the sentences on skipped and on refused memories. With `asks`, see `bulk.watch`.
    """
    from store.importers.memory_store import import_memories, survey_memories

    skipped, refused = Sentences(), Sentences()
    now, present = environment.now(), environment.presence()
    here = environment.project_or_default(settings, None, none=False)

    def read(on_progress: "Progress") -> "Iterator[Exported]":
        for done, place in enumerate(places, 1):
            on_progress(done, len(places))
            yield from map(present.limit, store.read(place, skipped.add))

    lines = show_progress(read, "places", quiet=quiet)
    if not dry_run:
        with (
            environment.open_or_make(settings) as log,
            watch(settings, log, f"import {store.name}", asks=asks),
        ):
            counts = import_memories(log, lines, now, project, refused.add, here)
        return counts, skipped, refused
    with environment.open_if_made(settings) as existing:
        counts = survey_memories(existing, lines, now, project, refused.add, here)
    return counts, skipped, refused


def store_summary(counts: "Found", *, is_done: bool) -> str:
    words = ("added", "changed", "known", "refused") if is_done else (
        "new", "changed", "known", "would be refused"
    )  # fmt: skip
    numbers = (counts.added, counts.changed, counts.known, counts.refused)
    text = ", ".join(f"{number:,} {word}" for number, word in zip(numbers, words, strict=True))
    return f"{counts.found:,} found: {text}"


def show_progress(
    read: "Callable[[Progress], Iterable[T]]", unit: str, *, quiet: bool
) -> "Iterator[T]":
    """Yield the items of `read` and show the progress on a terminal: against a total once `read`
    reports it, else only the number of memories.
    """
    if quiet or not sys.stderr.isatty():
        yield from read(no_progress)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Bar(*columns, console=Console(stderr=True), transient=True) as progress:
        task, far, count = progress.add_task("", total=None), "", 0

        def tell(done: int, total: int) -> None:
            nonlocal far
            far = f"{done:,} of {total:,} {unit}, "
            progress.update(task, completed=done, total=total)

        for item in read(tell):
            yield item
            count += 1
            progress.update(task, description=f"{far}{plural(count, 'memory')}")
