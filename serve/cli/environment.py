"""
Environment: the home and tenant a command works on, its log, and the home's running server.

The server has the model and the snapshots open; a command that loads them itself takes ten times as
long. If the server does not answer, for any reason, the command does the work itself, so its output
and its errors are the same either way.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from serve.cli import output
from serve.cli.presence import Presence, find_presence, list_ancestors
from store.home import config
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import ConfigError, InvalidInput, LogReadOnly, NotFound, did_you_mean
from store.home.files import make_folder
from store.home.instants import isoformat
from store.home.projects import check_project, scope_of
from store.home.tenant import Tenant

if TYPE_CHECKING:
    from serve.hosts.host import Install, Machine
    from serve.reader.reader import Known, Reader
    from store.home.registry import Server
    from store.log.event_log import EventLog


class Environment(msgspec.Struct, frozen=True):
    """The options before the command; None if not given."""

    home: str | None = None
    tenant: str | None = None

    def settings(self) -> Settings:
        """Return the settings for the current folder, and note an ignored project name or a
        variable that sets nothing; raise ConfigError.
        """
        settings = self._load(Path.cwd())
        for note in filter(None, (*settings.unknown_variables, settings.ignored_project)):
            output.note(f"note: {note}")
        return settings

    def settings_and_fault(self) -> tuple[Settings, str]:
        """Return the settings, and the fault of a project's file if they go without it.

        Raise ConfigError if the user's own file cannot be read.
        """
        try:
            return self._load(Path.cwd()), ""
        except ConfigError as error:
            return self._load(None), str(error)

    def _load(self, cwd: Path | None) -> Settings:
        options = {"MNEMOLOG_HOME": self.home, "MNEMOLOG_TENANT": self.tenant}
        given = {name: value for name, value in options.items() if value}
        return config.load(cwd, os.environ | given)


def machine() -> "Machine":
    """Return the machine that this command runs on: the user's folder, variables and system."""
    from serve.hosts.host import Machine

    return Machine(Path.home(), os.environ, sys.platform)


def install(settings: Settings, *, makes_token: bool = False) -> "Install":
    """Return the program, home and key that hosts use; without a token the key is invalid."""
    from serve.hosts.host import Install
    from store.home.http_access import owner_token

    has_token = makes_token or settings.token_file.exists()
    is_own = settings.origin.get("tenant") == "environment"  # else the server knows it too
    return Install(
        python=os.path.abspath(sys.executable),  # not resolved: a link selects its environment
        code=Path(__file__).absolute().parents[1],
        home=settings.home.absolute(),
        tenant=settings.choices.tenant if is_own else None,
        port=settings.choices.port,
        token=owner_token(settings) if has_token else "",
        platform=sys.platform,
    )


def presence() -> Presence:
    """Return the caller of this command: a person at a terminal, an agent, or a program."""
    # all three are missing under `pythonw`
    streams = [stream for stream in (sys.stdin, sys.stdout, sys.stderr) if stream is not None]
    has_terminal = any(not stream.closed and stream.isatty() for stream in streams)
    return find_presence(
        os.environ, has_terminal, lambda: list_ancestors(os.getpid(), sys.platform)
    )


def can_ask() -> bool:
    """Return True if a person is there to read a question and to answer it."""
    return sys.stdin.isatty() and sys.stdout.isatty() and presence().is_person


def now() -> int:
    """Return the current time in microseconds UTC."""
    return time.time_ns() // 1000


def current_tenant(settings: Settings) -> Tenant:
    """Return the chosen tenant; raise InvalidName or NotFound."""
    name = settings.choices.tenant
    try:
        return tenants.find_tenant(settings.home, name)
    except NotFound as error:  # the home's owner may know its tenants, unlike the holder of a token
        hint = did_you_mean(name, [tenant.name for tenant in tenants.list_tenants(settings.home)])
        raise NotFound(f"{error}.{hint}" if hint else str(error)) from error


def make_tenant(settings: Settings) -> tuple[Tenant, bool]:
    """Make the home and the tenant's log if missing; return the tenant, and True if new."""
    from store.log.event_log import EventLog

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


def open_log(settings: Settings, *, waits: bool = False) -> "EventLog":
    """Return the chosen tenant's log; raise NotFound if it was never made.

    With `waits` the log may be one that cannot be opened: see EventLog.
    """
    from store.log.event_log import EventLog  # with redaction, a tenth of a command's start

    return EventLog(current_tenant(settings).log, waits=waits)


def open_if_made(settings: Settings) -> "AbstractContextManager[EventLog | None]":
    """Return the chosen tenant's log; None if it was never made."""
    has_log = tenants.tenant(settings.home, settings.choices.tenant).exists
    return open_log(settings) if has_log else nullcontext()


def open_reader(settings: Settings, log: "EventLog", tenant: Tenant | None = None) -> "Reader":
    """Return a reader of the chosen tenant, or another, without a server; in an agent's shell,
    memories held back from agents stay hidden.
    """
    from serve.reader.memory_json import for_agents
    from serve.reader.reader import Reader
    from serve.recall.query_embedder import QueryEmbedders

    if (context := click.get_current_context(silent=True)) is not None:
        context.find_root().with_resource(for_agents(lambda: not presence().is_person))

    embedders = QueryEmbedders(settings.home, lambda: settings.choices.embedder)
    of = tenant or current_tenant(settings)
    return Reader(of, log, embedders.chosen(), find_embedder=embedders.find)


@contextmanager
def known(settings: Settings, log: "EventLog", known_at: str | None = None) -> Iterator["Known"]:
    """Yield the memory as it is known, or as it was at a place in its log.

    Raise InvalidInput if `known_at` names no such place.
    """
    from serve.reader.reader import Known

    reader = open_reader(settings, log)
    if known_at is None:
        yield Known(current_tenant(settings), log, reader, settings.choices, now())
        return
    from serve.reader import past

    place = past.find_place(log, known_at, settings.choices, now(), Path.cwd())
    output.note(f"as known after event {place.seq}, at {isoformat(place.now)}")
    with past.known_at(log, reader, place) as here:
        for note in here.notes:
            output.note(f"note: {note}")
        yield here


@contextmanager
def open_known(
    settings: Settings, known_at: str | None = None
) -> "Iterator[tuple[EventLog, Known]]":
    """Yield the chosen tenant's log, and its memory as `known` does."""
    with open_log(settings) as log, known(settings, log, known_at) as here:
        yield log, here


def open_or_make(settings: Settings) -> "EventLog":
    """Return the log to write to; the default tenant needs no `init` before its first memory."""
    if settings.choices.tenant == config.DEFAULT_TENANT:
        make_tenant(settings)
    return open_log(settings)


def project_or_default(settings: Settings, project: str | None, *, none: bool) -> str | None:
    """Return the project that is meant: the one given, the settings', or the directory's.

    `none` means no project. Raise InvalidName for an invalid name.
    """
    if project is not None and none:
        raise InvalidInput("--project cannot be combined with the option for no project")
    if none:
        return None
    name = project or settings.choices.project
    return check_project(name) if name else scope_of(Path.cwd())


def check_settable(settings: Settings, name: str) -> None:
    """Raise InvalidInput if a source that overrides the user's file sets a setting."""
    if (origin := settings.origin.get(name, "")) not in ("", str(settings.user_file)):
        where = f"MNEMOLOG_{name.upper()}" if origin == "environment" else origin
        raise InvalidInput(f"{where} sets {name}, over what this command could set: take it out")


def note_copy(tenant: Tenant, what: str, to: str, now: int) -> None:
    """Record that a tenant was copied, so that the receipt of an erasure names the copy."""
    from store.maintenance.erase_receipt import record_copy

    try:
        record_copy(tenant, what, to, now)
    except OSError as error:
        output.note(
            f"note: this copy could not be noted, so `erase` will not list it: {error.strerror}"
        )


# The server of this home

_PATIENCE_S = 10.0  # for an answer: a model may still be loading
_READ_S = 2.0  # for reads


def _living_server(settings: Settings) -> "Server | None":
    """Return this home's server, None if it has ended: another program may have its port by now,
    and must not be sent the owner's token.
    """
    from store.home.registry import is_held, read_registry

    return read_registry(settings) if is_held(settings) else None


def ask_server(
    settings: Settings, method: str, path: str, fields: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the answer of this home's server; None if none runs under these settings, or it does
    not answer with success: the command then reads the memory itself.
    """
    server = _living_server(settings)
    if server is None or server.answers_by != settings.choices.answers_by:
        return None
    fields = {**fields, "tenant": settings.choices.tenant}
    patience_s = _PATIENCE_S
    if method == "GET":
        from urllib.parse import urlencode

        patience_s = _READ_S
        query = {name: value for name, value in fields.items() if value is not None}
        path, fields = f"{path}?{urlencode(query, doseq=True)}", {}
    try:
        status, data = request_as_owner(settings, server, method, path, patience_s, fields)
        return msgspec.json.decode(data) if status == HTTPStatus.OK else None
    except (ConfigError, msgspec.DecodeError):  # or another program on that port
        return None


def keep_receipt(settings: Settings, id_: str) -> None:
    """Have the server write a receipt at once: the next command may rate it."""
    if (server := _living_server(settings)) is not None:
        path = f"/v1/receipts/{id_}?tenant={settings.choices.tenant}"
        with suppress(ConfigError):  # on failure it is written a little later
            request_as_owner(settings, server, "GET", path, _PATIENCE_S)


def _quoted_cwd() -> str:
    """Return the working directory, quoted for a header; "" if it no longer exists."""
    from urllib.parse import quote

    try:
        return quote(os.fsencode(os.getcwd()))
    except FileNotFoundError:
        return ""


def request_as_owner(
    settings: Settings,
    server: "Server",
    method: str,
    path: str,
    timeout_s: float,
    body: Mapping[str, Any] | None = None,
) -> tuple[int, bytes]:
    """Return the status and body of a server's response to the owner; raise ConfigError."""
    import http.client  # 30 ms, and the package's client twice that: only if there is a server

    from store.home.http_access import owner_token
    from store.home.registry import HOST

    headers = {
        "Authorization": f"Bearer {owner_token(settings)}",
        "Content-Type": "application/json",
        **({"X-Mnemolog-Cwd": cwd} if (cwd := _quoted_cwd()) else {}),
    }
    sent = msgspec.json.encode(body or {}) if method == "POST" else None
    connection = http.client.HTTPConnection(HOST, server.port, timeout=timeout_s)
    try:
        connection.request(method, path, sent, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ConfigError(f"the server on port {server.port} does not answer: {error}") from error
    finally:
        connection.close()
