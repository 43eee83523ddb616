"""`mnemolog project`: which project a folder's notes belong to, and if it may be another."""

from pathlib import Path

import click

from serve.cli import output
from serve.cli.session import Session
from store.home import config, projects
from store.home.config import Settings
from store.home.errors import InvalidInput, NotFound
from store.home.projects import checked_project, project_of


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
    you allowed it.
    """
    if context.invoked_subcommand is None:
        _show(context.obj.settings(), as_json=as_json)


@project.command(epilog=output.example("mnemolog project allow"))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output.json_option
@click.pass_obj
def allow(session_: Session, /, yes: bool, as_json: bool) -> None:
    """Let this repository use the project that its .mnemolog.toml names.

    Agents in it then see that project's notes, and write to it. This applies to this copy of the
    repository; your consent is stored in the home, not in the repository.
    """
    settings, name = _named(session_)
    if not yes:
        asked = f"Show notes of {name} in this repository, and write to {name}?"
        if not click.confirm(asked, err=True):
            raise InvalidInput("nothing was changed")
    projects.allow_name(settings.home, Path.cwd(), name)
    _show(session_.settings(), as_json=as_json)


@project.command(epilog=output.example("mnemolog project refuse"))
@output.json_option
@click.pass_obj
def refuse(session_: Session, /, as_json: bool) -> None:
    """Withdraw the consent given with `mnemolog project allow`."""
    settings, name = _named(session_)
    projects.refuse_name(settings.home, Path.cwd(), name)
    _show(session_.settings(), as_json=as_json)


def _named(session_: Session) -> tuple[Settings, str]:
    """Return the settings, and the project that the nearest file names; raise NotFound."""
    settings, name = session_.settings(), config.named_by_files(Path.cwd())
    if name is None:
        raise NotFound("no .mnemolog.toml in this repository names a project")
    return settings, checked_project(name)


def _show(settings: Settings, *, as_json: bool) -> None:
    name = settings.choices.project or project_of(Path.cwd())
    if as_json:
        output.emit({"project": name, "ignored": settings.ignored_project or None})
    else:
        output.say(output.clean(name) if name else "no project: this is not a git repository")
