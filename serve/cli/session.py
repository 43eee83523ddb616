"""
Session: what the group's options say, and what every command opens with it.
"""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from store.home import config
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import ConfigError, InvalidInput, LogReadOnly
from store.home.files import make_folder
from store.home.projects import checked_project, project_of
from store.home.tenant import Tenant
from store.log import EventLog

if TYPE_CHECKING:
    from serve.connect.machine import Install, Machine


@dataclass(frozen=True, slots=True)
class Session:
    """The options before the command; None where they were not given."""

    home: str | None = None
    tenant: str | None = None

    def settings(self) -> Settings:
        """Return the settings as seen from here, and say so if a project's name is ignored; raise
        ConfigError.
        """
        found = self._loaded(Path.cwd())
        if found.ignored_project:
            from serve.cli import output

            output.note(f"note: {found.ignored_project}")
        return found

    def settings_and_fault(self) -> tuple[Settings, str]:
        """Return the settings, and what is wrong with a project's file where they go without it.

        Raise ConfigError where the user's own cannot be read.
        """
        try:
            return self._loaded(Path.cwd()), ""
        except ConfigError as error:
            return self._loaded(None), str(error)

    def _loaded(self, cwd: Path | None) -> Settings:
        given = {"MNEMOLOG_HOME": self.home, "MNEMOLOG_TENANT": self.tenant}
        said = {name: value for name, value in given.items() if value}
        return config.load(cwd, os.environ | said)


def machine() -> "Machine":
    """Return where the user's files lie."""
    from serve.connect.machine import Machine

    return Machine(Path.home(), os.environ, sys.platform)


def install(settings: Settings, *, makes_token: bool = False) -> "Install":
    """Return how a host reaches this mnemolog; without a token its keys open nothing."""
    from serve.connect.machine import Install
    from store.home.http_access import owner_token

    has_token = makes_token or settings.token_file.exists()
    is_said = settings.origin.get("tenant") == "environment"  # else the server knows it too
    return Install(
        python=os.path.abspath(sys.executable),  # not resolved: a link into an environment is it
        code=Path(__file__).absolute().parents[1],
        home=settings.home.absolute(),
        tenant=settings.choices.tenant if is_said else None,
        port=settings.choices.port,
        token=owner_token(settings) if has_token else "",
        platform=sys.platform,
    )


def now() -> int:
    """Return microseconds UTC."""
    return time.time_ns() // 1000


def chosen(settings: Settings) -> Tenant:
    """Return the tenant asked for; raise InvalidName or NotFound."""
    return tenants.find_tenant(settings.home, settings.choices.tenant)


def make(settings: Settings) -> tuple[Tenant, bool]:
    """Make the home and the tenant's log where they are missing; return whether it did."""
    tenant = tenants.tenant(settings.home, settings.choices.tenant)
    is_new = not tenant.exists
    try:
        make_folder(settings.home)
    except OSError as error:
        raise LogReadOnly(
            f"{settings.home} cannot be created ({error.strerror}): "
            "set MNEMOLOG_HOME to another folder"
        ) from error
    EventLog(tenant.log, create=True).close()
    return tenant, is_new


def open_log(settings: Settings, *, waits: bool = False) -> EventLog:
    """Return the chosen tenant's log; raise NotFound where it was never made.

    With `waits` it may be one that cannot be opened: see EventLog.
    """
    return EventLog(chosen(settings).log, waits=waits)


def open_or_make(settings: Settings) -> EventLog:
    """Return the log to write to; the default tenant needs no `init` before its first memory."""
    if settings.choices.tenant == config.DEFAULT_TENANT:
        make(settings)
    return open_log(settings)


def project(settings: Settings, given: str | None, *, none: bool) -> str | None:
    """Return the project that is meant: the one given, the settings', or the directory's.

    `none` says that no project is meant. Raise InvalidName for a name we refuse.
    """
    if given is not None and none:
        raise InvalidInput("--project cannot be combined with the option for no project")
    if none:
        return None
    name = given or settings.choices.project
    return checked_project(name) if name else project_of(Path.cwd())


def note_copy(tenant: Tenant, what: str, to: str, now: int) -> None:
    """Keep that a copy of a tenant was made, so that the receipt of an erasing names it."""
    from serve.cli import output
    from store.erase.copies import noted_copy

    try:
        noted_copy(tenant, what, to, now)
    except OSError as error:
        output.note(
            f"note: this copy could not be noted, so `erase` will not list it: {error.strerror}"
        )
