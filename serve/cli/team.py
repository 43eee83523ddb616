"""Commands that share a home: `tenants` and the `tokens` that open one of them to a program."""

import shlex
from http import HTTPStatus
from typing import TYPE_CHECKING

import click

from serve import formatting
from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from serve.formatting import size
from store.home import tenant as tenants_
from store.home.config import Settings
from store.home.errors import BuildBusy, Conflict, InvalidName, MnemologError, NotFound
from store.home.tokens import MOST_PER_MINUTE, PER_MINUTE, SCOPES, Scope
from store.log.event_log import EventLog
from store.text.excerpt import plural

if TYPE_CHECKING:
    from mnemolog.wire import Deleted, TenantStats


_ANSWER_S = 30.0  # requests under way in a tenant are finished before it is deleted
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
        _print_tenants(context.obj.settings(), as_json=as_json)


@tenants.command("list", epilog=output.example("mnemolog tenants list"))
@output.json_option
@click.pass_obj
def list_tenants(env: Environment, /, as_json: bool) -> None:
    """List the tenants by name; * marks the default."""
    _print_tenants(env.settings(), as_json=as_json)


def _print_tenants(settings: Settings, *, as_json: bool) -> None:
    from serve.server.callers import OWNER
    from serve.server.tenant_admin import list_tenants

    summaries = list_tenants(settings, OWNER, environment.now())
    if as_json:
        output.emit({"tenants": summaries})
    elif not summaries:
        output.say("no tenant yet: run `mnemolog init`")
    else:
        rows = [
            (
                f"{tenant.tenant}{' *' if tenant.is_default else ''}",
                size(tenant.log_bytes),
                str(tenant.tokens),
            )
            for tenant in summaries
        ]
        output.table(("tenant", "log", "tokens"), rows)


@tenants.command("create", epilog=output.example("mnemolog tenants create team"))
@click.argument("name", type=arguments.TENANT)
@output.json_option
@click.pass_obj
def create_tenant(env: Environment, /, name: str, as_json: bool) -> None:
    """Create a tenant: 1 to 63 of a-z 0-9 _ -, starting with a letter or digit. An existing one
    stays.
    """
    settings = env.settings()
    tenant = tenants_.tenant(settings.home, name)
    is_new = not tenant.exists
    EventLog(tenant.log, create=True).close()
    if as_json:
        output.emit({"tenant": name, "new": is_new})
        return
    output.say(f"{name} {'was created' if is_new else 'exists already'}")
    if is_new:
        output.note(f"next: `mnemolog tokens create --tenant {name} --scope read --scope write`")


@tenants.command("stats", epilog=output.example("mnemolog tenants stats team"))
@click.argument("name", required=False, type=arguments.TENANT)
@output.json_option
@click.pass_obj
def show_tenant_stats(env: Environment, /, name: str | None, as_json: bool) -> None:
    """Show a tenant's figures; the default tenant if none is given."""
    from serve.reports.tenant_statistics import tenant_stats

    settings = env.settings()
    tenant = tenants_.find_tenant(settings.home, name or settings.choices.tenant)
    with EventLog(tenant.log) as log:
        reader = environment.open_reader(settings, log, tenant)
        stats = reader.answer(lambda view: tenant_stats(tenant, log, view, environment.now()))
    if as_json:
        output.emit(stats)
    else:
        _print_tenant_stats(stats)


def _print_tenant_stats(stats: "TenantStats") -> None:
    output.say(f"tenant    {stats.tenant}")
    output.say(f"memories  {stats.active:,} active")
    for kind, states in stats.memories.items():
        counted = ", ".join(f"{count:,} {state}" for state, count in states.items())
        output.say(f"          {kind}: {counted}")
    output.say(f"log       {plural(stats.events, 'event')}, {size(stats.log_bytes)}")
    if stats.manifest is None:
        output.say("manifest  none: run `mnemolog build`")
    else:
        ago = formatting.ago(stats.manifest.age_s)
        output.say(f"manifest  {stats.manifest.number}, built {ago}, {size(stats.snapshot_bytes)}")
    output.say(f"tail      {plural(stats.tail, 'event')} since")
    silence = ""
    if stats.silence_rate is not None:
        silence = f"; {stats.silence_rate:.0%} of the newest without results"
    output.say(f"recalls   {stats.recalls_of_day:,} in a day{silence}")


@tenants.command(
    "delete",
    epilog=output.example("mnemolog tenants delete team", "mnemolog tenants delete team --yes"),
)
@click.argument("name", type=arguments.TENANT)
@arguments.yes_option
@output.json_option
@click.pass_obj
def delete_tenant(env: Environment, /, name: str, yes: bool, as_json: bool) -> None:
    """Move a tenant's folder to `deleted` in the home, and revoke its tokens.

    Nothing is destroyed. To get the tenant back, move the folder back to `tenants` under its name;
    to destroy it, remove the folder.
    """
    settings = env.settings()
    tenants_.find_tenant(settings.home, name)
    if not yes:
        if as_json:
            raise click.UsageError("--json cannot ask: add --yes")
        if not click.confirm(f"Delete the tenant {name} and revoke its tokens?", default=False):
            raise click.Abort
    deleted = _delete(settings, name)
    if as_json:
        output.emit(deleted)
        return
    output.say(f"deleted {name} and revoked {deleted.tokens} tokens")
    output.note(f"its folder is kept in {deleted.kept_in}")
    back = shlex.join(("mv", deleted.kept_in, str(settings.home / "tenants" / name)))
    output.note(f"to get it back: `{back}`")


def _delete(settings: Settings, name: str) -> "Deleted":
    """Delete a tenant; a running server of the home does it itself, as it has the tenant open."""
    import msgspec
    from mnemolog.wire import Deleted

    from store.home import registry

    if (server := registry.live_server(settings)) is None:
        with registry.sole(settings):  # no server can start meanwhile
            folder, tokens = tenants_.delete_tenant(settings, name, environment.now())
        return Deleted(tenant=name, kept_in=str(folder), tokens=tokens)
    path = f"/v1/tenants/{name}"
    status, body = environment.request_as_owner(settings, server, "DELETE", path, _ANSWER_S)
    if status == HTTPStatus.OK:
        return msgspec.json.decode(body, type=Deleted)
    problem = msgspec.json.decode(body)
    raise _ERRORS.get(problem["code"], MnemologError)(problem["detail"])


# tokens

_NAME_WIDTH = 30


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog tokens", "mnemolog tokens create --tenant team --scope read"),
)
@output.json_option
@click.pass_context
def tokens(context: click.Context, as_json: bool) -> None:
    """List the tokens. Each gives a program access to one tenant."""
    if context.invoked_subcommand is None:
        _print_tokens(context.obj.settings(), None, as_json=as_json)


@tokens.command("list", epilog=output.example("mnemolog tokens list --tenant team"))
@click.option("--tenant", type=arguments.TENANT, help="Only this tenant's.")
@output.json_option
@click.pass_obj
def list_tokens(env: Environment, /, tenant: str | None, as_json: bool) -> None:
    """List the tokens, newest first; a token that ended stays listed for thirty days."""
    settings = env.settings()
    if tenant is not None:
        tenants_.find_tenant(settings.home, tenant)
    _print_tokens(settings, tenant, as_json=as_json)


def _print_tokens(settings: Settings, tenant: str | None, *, as_json: bool) -> None:
    from serve.server.tenant_admin import summarize_token
    from store.home import tokens as kept

    now = environment.now()
    summaries = [
        summarize_token(token, now) for token in reversed(kept.every(settings.home, tenant))
    ]
    if as_json:
        output.emit({"tokens": summaries})
    elif not summaries:
        output.say("no tokens: `mnemolog tokens create` creates one")
    else:
        rows = [
            (
                token.id,
                token.tenant,
                " ".join(token.scopes),
                token.state,
                f"{token.created_at:%Y-%m-%d}",
                f"{token.expires_at:%Y-%m-%d}" if token.expires_at else "",
                output.one_line(token.name, _NAME_WIDTH),
            )
            for token in summaries
        ]
        output.table(("id", "tenant", "scopes", "state", "made", "expires", "name"), rows)


@tokens.command(
    "create",
    epilog=output.example(
        "mnemolog tokens create --tenant team --scope read --scope write --name ci --expires 90d"
    ),
)
@click.option(
    "--tenant", type=arguments.TENANT, help="The tenant it opens; default: the default tenant."
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=arguments.Choice(SCOPES),
    help="What it may do; may be repeated. `admin` includes all, and creating tokens.",
)
@click.option("--name", default="", help="A name for the token.")
@click.option("--expires", metavar="SPAN", help="When it expires: 12h, 90d; default: never.")
@click.option(
    "--per-minute",
    type=click.IntRange(1, MOST_PER_MINUTE),
    default=PER_MINUTE,
    help=f"Requests per minute; default: {PER_MINUTE:,}.",
)
@output.json_option
@click.pass_obj
def create_token(
    env: Environment,
    /,
    tenant: str | None,
    scopes: tuple[Scope, ...],
    name: str,
    expires: str | None,
    per_minute: int,
    as_json: bool,
) -> None:
    """Create a token and print it; it is shown only this once and not stored."""
    import msgspec

    from serve.server.callers import OWNER
    from serve.server.tenant_admin import make_token
    from store.home.tokens import Wanted

    settings = env.settings()
    opens = tenants_.find_tenant(settings.home, tenant or settings.choices.tenant)
    fields = {
        "scopes": tuple(dict.fromkeys(scopes)),
        "name": name,
        "ttl_s": formatting.parse_span(expires) if expires else None,
        "per_minute": per_minute,
    }
    made = make_token(settings, OWNER, opens, msgspec.convert(fields, Wanted), environment.now())
    if as_json:
        output.emit(made)
        return
    output.say(made.token)
    output.note(
        f"this token opens {made.tenant} for {', '.join(made.scopes)}; it is not shown again"
    )
    output.note(f"to revoke it: `mnemolog tokens revoke {made.id}`")


@tokens.command("revoke", epilog=output.example("mnemolog tokens revoke 3f9c0a1b2d4e"))
@click.argument("id_", metavar="ID")
@output.json_option
@click.pass_obj
def revoke_token(env: Environment, /, id_: str, as_json: bool) -> None:
    """Revoke a token and all tokens that it created, at once, even for a running server.

    Revoking it again changes nothing.
    """
    from serve.server.tenant_admin import describe_descendants, summarize_token
    from store.home import tokens as kept

    now, settings = environment.now(), env.settings()
    token = summarize_token(kept.revoke(settings.home, id_, now), now)
    if as_json:
        output.emit(token)
    else:
        output.say(
            f"{token.id} no longer opens {token.tenant}{describe_descendants(settings, id_)}"
        )
