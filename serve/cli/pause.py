"""`mnemolog pause` and `resume`: switch recording off for a project, a folder or a session."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from serve import moments
from serve.cli import output
from serve.cli.session import Session, now
from store.home import pauses
from store.home.config import Settings
from store.home.errors import InvalidInput
from store.home.instants import isoformat
from store.home.pauses import Pause, Scope
from store.home.projects import checked_project, project_of

Command = TypeVar("Command", bound=Callable[..., Any])


def _what(command: Command) -> Command:
    """Add the options that name what is paused."""
    for option in (
        click.option("--session", metavar="ID", help="A session, by its host's id."),
        click.option(
            "--directory",
            type=click.Path(exists=False, path_type=Path),
            metavar="PATH",
            help="A folder and everything below it.",
        ),
        click.option(
            "--project", metavar="NAME", help="A project; default: that of the working directory."
        ),
    ):
        command = option(command)
    return command


@click.command(
    epilog=output.example(
        "mnemolog pause", "mnemolog pause --for 2h", "mnemolog pause --directory ~/clients"
    )
)
@_what
@click.option("--for", "span", metavar="SPAN", help="Resume automatically after 90s, 15m, 2h, 1d.")
@output.json_option
@click.pass_obj
def pause(
    session_: Session,
    /,
    project: str | None,
    directory: Path | None,
    session: str | None,
    span: str | None,
    as_json: bool,
) -> None:
    """Stop recording this project until `mnemolog resume`. No notes are injected either.

    It takes effect at once, including in running sessions, and survives a restart. Earlier records
    stay, and `recall` still answers. For one run of an agent, start it with MNEMOLOG_OFF=1. For
    everyone who works on a repository, put `record = false` into its .mnemolog.toml.
    """
    (settings, _), at = session_.settings_and_fault(), now()
    scope, name = _named(settings, project, directory, session)
    until = at + moments.seconds(span) * 1_000_000 if span else None
    made = pauses.pause(settings.home, scope, name, at, until)
    if as_json:
        output.emit(pauses.shown(made))
        return
    ends = f" until {isoformat(until)}" if until else ""
    output.say(f"paused {output.clean(made.what)}{ends}: nothing is recorded")
    output.say(f"to resume: {output.clean(made.resume)}")


@click.command(epilog=output.example("mnemolog resume", "mnemolog resume --all"))
@_what
@click.option("--all", "everything", is_flag=True, help="Everything that is paused.")
@output.json_option
@click.pass_obj
def resume(
    session_: Session,
    /,
    project: str | None,
    directory: Path | None,
    session: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Record this project again after `mnemolog pause`.

    What happened while it was paused is never recorded, not even by an import.
    """
    (settings, _), at = session_.settings_and_fault(), now()
    if everything and any((project, directory, session)):
        raise click.UsageError("--all takes no other option")
    if everything:
        ended = pauses.resume(settings.home, at)
    else:
        named = _named(settings, project, directory, session)
        ended = pauses.resume(settings.home, at, *named)
    left = [one for one in pauses.read(settings.home) if one.holds(at)]
    if as_json:
        output.emit({"resumed": [pauses.shown(one) for one in ended], "paused": _all(left)})
        return
    for one in ended:
        output.say(f"resumed: {output.clean(one.what)}")
    if not ended:
        output.say("nothing was paused there")
    for one in left:
        output.say(f"still paused: {output.clean(one.what)}, to resume: {output.clean(one.resume)}")


def _all(found: list[Pause]) -> list[dict[str, object]]:
    return [pauses.shown(one) for one in found]


def _named(
    settings: Settings, project: str | None, directory: Path | None, session: str | None
) -> tuple[Scope, str]:
    """Return what is meant; raise InvalidInput where nothing is, InvalidName for no project."""
    if sum(one is not None for one in (project, directory, session)) > 1:
        raise click.UsageError("give only one of --project, --directory and --session")
    if directory is not None:
        return "directory", pauses.folder_name(directory.expanduser())
    if session is not None:
        if not session.strip():
            raise InvalidInput("--session is empty: give the id that the host shows")
        return "session", session
    name = project or settings.choices.project
    found = checked_project(name) if name else project_of(Path.cwd())
    if found is None:
        raise InvalidInput(
            "this folder is not in a repository: use --directory . or --project NAME"
        )
    return "project", found
