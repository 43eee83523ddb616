"""Commands that control where memories are recorded: `project`, `pause` and `resume`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from serve import formatting
from serve.cli import arguments, environment, output
from serve.cli.environment import Environment, now
from store.home import config, pauses, projects
from store.home.config import Settings
from store.home.errors import InvalidInput, NotFound
from store.home.instants import isoformat
from store.home.pauses import Scope
from store.home.projects import check_project, scope_of


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog project", "mnemolog project allow"),
)
@output.json_option
@click.pass_context
def project(context: click.Context, as_json: bool) -> None:
    """Print the project of this folder. It decides whose notes are shown here, and where new ones
    go.

    It comes from the repository's remote, or from its .mnemolog.toml if a remote has that name or
    you allowed it; a package in the repository follows after `//`. A folder outside git is a
    project by its path. Notes of a repository or folder also hold in the packages and folders
    within it.
    """
    if context.invoked_subcommand is None:
        _print_project(context.obj.settings(), as_json=as_json)


@project.command(epilog=output.example("mnemolog project allow"))
@arguments.yes_option
@output.json_option
@click.pass_obj
def allow(env: Environment, /, yes: bool, as_json: bool) -> None:
    """Let this repository use the project that its .mnemolog.toml names.

    Agents in it then see that project's notes, and write to it. This applies to this copy of the
    repository; your consent is stored in the home, not in the repository.
    """
    environment.presence().require_person("consent to a project's name")
    settings, name = _nearest_project(env)
    if not yes:
        question = f"Show notes of {name} in this repository, and write to {name}?"
        if not click.confirm(question, err=True):
            raise InvalidInput("nothing was changed")
    projects.allow_name(settings.home, Path.cwd(), name)
    _print_project(env.settings(), as_json=as_json)


@project.command(epilog=output.example("mnemolog project refuse"))
@output.json_option
@click.pass_obj
def refuse(env: Environment, /, as_json: bool) -> None:
    """Withdraw the consent given with `mnemolog project allow`."""
    settings, name = _nearest_project(env)
    projects.refuse_name(settings.home, Path.cwd(), name)
    _print_project(env.settings(), as_json=as_json)


def _nearest_project(env: Environment) -> tuple[Settings, str]:
    """Return the settings, and the project in the nearest project file; raise NotFound."""
    settings, name = env.settings(), config.project_in_files(Path.cwd())
    if name is None:
        raise NotFound("no .mnemolog.toml in this repository names a project")
    return settings, check_project(name)


def _print_project(settings: Settings, *, as_json: bool) -> None:
    name = settings.choices.project or scope_of(Path.cwd())
    if as_json:
        output.emit({"project": name, "ignored": settings.ignored_project or None})
    else:
        output.say(
            output.clean(name) if name else "no project: what is recorded here holds everywhere"
        )


# pause, resume

Command = TypeVar("Command", bound=Callable[..., Any])


def _what(command: Command) -> Command:
    """Add the options that select the target of a pause."""
    for option in (
        click.option("--session", metavar="ID", help="A session, by its host's id."),
        click.option(
            "--directory",
            type=click.Path(exists=False, path_type=Path),
            metavar="PATH",
            help="A folder and everything below it.",
        ),
        click.option(
            "--project",
            type=arguments.NEW_PROJECT,
            metavar="NAME",
            help="A project; default: that of the working directory.",
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
    env: Environment,
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
    (settings, _), at = env.settings_and_fault(), now()
    scope, name = _pause_target(settings, project, directory, session)
    until = at + formatting.parse_span(span) * 1_000_000 if span else None
    new = pauses.pause(settings.home, scope, name, at, until)
    if as_json:
        output.emit(pauses.pause_fields(new))
        return
    ends = f" until {isoformat(until)}" if until else ""
    output.say(f"paused {output.clean(new.what)}{ends}: nothing is recorded")
    output.say(f"to resume: {output.clean(new.resume)}")


@click.command(epilog=output.example("mnemolog resume", "mnemolog resume --all"))
@_what
@click.option("--all", "everything", is_flag=True, help="Everything that is paused.")
@output.json_option
@click.pass_obj
def resume(
    env: Environment,
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
    (settings, _), at = env.settings_and_fault(), now()
    if everything and any((project, directory, session)):
        raise click.UsageError("--all takes no other option")
    if everything:
        ended = pauses.resume(settings.home, at)
    else:
        target = _pause_target(settings, project, directory, session)
        ended = pauses.resume(settings.home, at, *target)
    paused = [other for other in pauses.read(settings.home) if other.holds(at)]
    if as_json:
        fields = {"resumed": ended, "paused": paused}
        output.emit({name: list(map(pauses.pause_fields, some)) for name, some in fields.items()})
        return
    for pause in ended:
        output.say(f"resumed: {output.clean(pause.what)}")
    if not ended:
        output.say("nothing was paused there")
    for pause in paused:
        resume = output.clean(pause.resume)
        output.say(f"still paused: {output.clean(pause.what)}, to resume: {resume}")


def _pause_target(
    settings: Settings, project: str | None, directory: Path | None, session: str | None
) -> tuple[Scope, str]:
    """Return the target of the options; raise InvalidInput for none, InvalidName for a bad name."""
    if sum(option is not None for option in (project, directory, session)) > 1:
        raise click.UsageError("give only one of --project, --directory and --session")
    if directory is not None:
        return "directory", pauses.folder_name(directory.expanduser())
    if session is not None:
        if not session.strip():
            raise InvalidInput("--session is empty: give the id that the host shows")
        return "session", session
    name = project or settings.choices.project
    scope = check_project(name) if name else scope_of(Path.cwd())
    if scope is None:
        raise InvalidInput("this folder belongs to no project: use --directory . or --project NAME")
    return "project", scope
