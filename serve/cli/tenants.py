"""`mnemolog tenants`: list them, make one, see how one does, put one away."""

import shlex
from http import HTTPStatus
from typing import TYPE_CHECKING

import click

from serve import moments
from serve.cli import output, served, session
from serve.cli.session import Session
from serve.numerals import size
from store.home import tenant as tenants_
from store.home.config import Settings
from store.home.errors import BuildBusy, Conflict, InvalidName, MnemologError, NotFound
from store.log import EventLog

if TYPE_CHECKING:
    from serve.summaries.tenant_stats import TenantStats
    from store.home.registry import Server
    from store.home.tenant import Deleted

_ANSWER_S = 30.0  # what is being answered from a tenant is finished before it goes
_ERRORS: dict[str, type[MnemologError]] = {
    "not_found": NotFound,
    "invalid_name": InvalidName,
    "conflict": Conflict,
    "build_busy": BuildBusy,
}


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog tenants", "mnemolog tenants create team"),
)
@output.json_option
@click.pass_context
def tenants(context: click.Context, as_json: bool) -> None:
    """List the tenants, memories that share nothing."""
    if context.invoked_subcommand is None:
        _list(context.obj.settings(), as_json=as_json)


@tenants.command("list", epilog=output.example("mnemolog tenants list"))
@output.json_option
@click.pass_obj
def list_(session_: Session, /, as_json: bool) -> None:
    """List the tenants by name; * marks the default."""
    _list(session_.settings(), as_json=as_json)


def _list(settings: Settings, *, as_json: bool) -> None:
    from serve.server.callers import OWNER
    from serve.server.tenant_admin import list_tenants

    found = list_tenants(settings, OWNER, session.now())
    if as_json:
        output.emit({"tenants": found})
    elif not found:
        output.say("no tenant yet: run `mnemolog init`")
    else:
        rows = [
            (
                f"{one.tenant}{' *' if one.is_default else ''}",
                size(one.log_bytes),
                str(one.tokens),
            )
            for one in found
        ]
        output.table(("tenant", "log", "tokens"), rows)


@tenants.command(epilog=output.example("mnemolog tenants create team"))
@click.argument("name")
@output.json_option
@click.pass_obj
def create(session_: Session, /, name: str, as_json: bool) -> None:
    """Create a tenant: 1 to 63 of a-z 0-9 _ -, starting with a letter or digit. An existing one
    stays.
    """
    settings = session_.settings()
    tenant = tenants_.tenant(settings.home, name)
    is_new = not tenant.exists
    EventLog(tenant.log, create=True).close()
    if as_json:
        output.emit({"tenant": name, "new": is_new})
        return
    output.say(f"{name} {'was created' if is_new else 'exists already'}")
    if is_new:
        output.note(f"next: `mnemolog tokens create --tenant {name} --scope read --scope write`")


@tenants.command(epilog=output.example("mnemolog tenants stats team"))
@click.argument("name", required=False)
@output.json_option
@click.pass_obj
def stats(session_: Session, /, name: str | None, as_json: bool) -> None:
    """Show a tenant's figures; the default tenant if none is given."""
    from serve.reader.reader import Reader
    from serve.summaries.tenant_stats import tenant_stats
    from store.embedders.embedder import make_embedder

    settings = session_.settings()
    tenant = tenants_.find_tenant(settings.home, name or settings.choices.tenant)
    with EventLog(tenant.log) as log:
        reader = Reader(tenant, log, make_embedder(settings.choices.embedder, settings.home))
        found = reader.answered(lambda view: tenant_stats(tenant, log, view, session.now()))
    if as_json:
        output.emit(found)
    else:
        _show(found)


def _show(found: "TenantStats") -> None:
    output.say(f"tenant    {found.tenant}")
    output.say(f"memories  {found.active:,} active")
    for kind, states in found.memories.items():
        counted = ", ".join(f"{count:,} {state}" for state, count in states.items())
        output.say(f"          {kind}: {counted}")
    output.say(f"log       {found.events:,} events, {size(found.log_bytes)}")
    if found.manifest is None:
        output.say("manifest  none: run `mnemolog build`")
    else:
        ago = moments.ago(found.manifest.age_s)
        output.say(f"manifest  {found.manifest.number}, built {ago}, {size(found.snapshot_bytes)}")
    output.say(f"tail      {found.tail:,} events since")
    output.say(f"recalls   {found.recalls_of_day:,} in a day{_silence(found.silence_rate)}")


def _silence(rate: float | None) -> str:
    return "" if rate is None else f"; {rate:.0%} of the newest without results"


@tenants.command(
    epilog=output.example("mnemolog tenants delete team", "mnemolog tenants delete team --yes")
)
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output.json_option
@click.pass_obj
def delete(session_: Session, /, name: str, yes: bool, as_json: bool) -> None:
    """Move a tenant's folder to `deleted` in the home, and revoke its tokens.

    Nothing is destroyed. To get the tenant back, move the folder back to `tenants` under its name;
    to destroy it, remove the folder.
    """
    settings = session_.settings()
    tenants_.find_tenant(settings.home, name)
    if not yes:
        if as_json:
            raise click.UsageError("--json cannot ask: add --yes")
        if not click.confirm(f"Delete the tenant {name} and revoke its tokens?", default=False):
            raise click.Abort
    found = _delete(settings, name)
    if as_json:
        output.emit(found)
        return
    output.say(f"deleted {name} and revoked {found.tokens} tokens")
    output.note(f"its folder is kept in {found.kept_in}")
    back = shlex.join(("mv", found.kept_in, str(settings.home / "tenants" / name)))
    output.note(f"to get it back: `{back}`")


def _delete(settings: Settings, name: str) -> "Deleted":
    """Put a tenant away; a server of the home, which has it open, does it itself."""
    from store.home import registry

    if (server := registry.running(settings)) is not None:
        return _asked(settings, server, name)
    with registry.sole(settings):  # and none starts meanwhile
        return tenants_.delete_tenant(settings, name, session.now())


def _asked(settings: Settings, server: "Server", name: str) -> "Deleted":
    import msgspec

    from store.home.tenant import Deleted

    path = f"/v1/tenants/{name}"
    status, body = served.owners_answer(settings, server, "DELETE", path, _ANSWER_S)
    if status == HTTPStatus.OK:
        return msgspec.json.decode(body, type=Deleted)
    said = msgspec.json.decode(body)
    raise _ERRORS.get(said["code"], MnemologError)(said["detail"])
