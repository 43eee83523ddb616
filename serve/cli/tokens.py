"""`mnemolog tokens`: make, list and revoke what opens one tenant to a program."""

import click

from serve import moments
from serve.cli import output, session
from serve.cli.session import Session
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.tokens import MOST_PER_MINUTE, PER_MINUTE, SCOPES, Scope

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
        _list(context.obj.settings(), None, as_json=as_json)


@tokens.command("list", epilog=output.example("mnemolog tokens list --tenant team"))
@click.option("--tenant", help="Only this tenant's.")
@output.json_option
@click.pass_obj
def list_(session_: Session, /, tenant: str | None, as_json: bool) -> None:
    """List the tokens, newest first; a token that ended stays listed for thirty days."""
    settings = session_.settings()
    if tenant is not None:
        tenants.find_tenant(settings.home, tenant)
    _list(settings, tenant, as_json=as_json)


def _list(settings: Settings, tenant: str | None, *, as_json: bool) -> None:
    from serve.server.tenant_admin import summarize_token
    from store.home import tokens as kept

    now = session.now()
    found = [summarize_token(one, now) for one in reversed(kept.every(settings.home, tenant))]
    if as_json:
        output.emit({"tokens": found})
    elif not found:
        output.say("no tokens: `mnemolog tokens create` creates one")
    else:
        rows = [
            (
                one.id,
                one.tenant,
                " ".join(one.scopes),
                one.state,
                one.created_at[:10],
                one.expires_at[:10] if one.expires_at else "",
                output.one_line(one.name, _NAME_WIDTH),
            )
            for one in found
        ]
        output.table(("id", "tenant", "scopes", "state", "made", "expires", "name"), rows)


@tokens.command(
    epilog=output.example(
        "mnemolog tokens create --tenant team --scope read --scope write --name ci --expires 90d"
    )
)
@click.option("--tenant", help="The tenant it opens; default: the default tenant.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(SCOPES),
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
def create(
    session_: Session,
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

    settings = session_.settings()
    opens = tenants.find_tenant(settings.home, tenant or settings.choices.tenant)
    said = {
        "scopes": tuple(dict.fromkeys(scopes)),
        "name": name,
        "ttl_s": moments.seconds(expires) if expires else None,
        "per_minute": per_minute,
    }
    made = make_token(settings, OWNER, opens, msgspec.convert(said, Wanted), session.now())
    if as_json:
        output.emit(made)
        return
    output.say(made.token)
    output.note(
        f"this token opens {made.tenant} for {', '.join(made.scopes)}; it is not shown again"
    )
    output.note(f"to revoke it: `mnemolog tokens revoke {made.id}`")


@tokens.command(epilog=output.example("mnemolog tokens revoke 3f9c0a1b2d4e"))
@click.argument("id_", metavar="ID")
@output.json_option
@click.pass_obj
def revoke(session_: Session, /, id_: str, as_json: bool) -> None:
    """Revoke a token and all tokens that it created, at once, even for a running server.

    Revoking it again changes nothing.
    """
    from serve.server.tenant_admin import describe_descendants, summarize_token
    from store.home import tokens as kept

    now, settings = session.now(), session_.settings()
    found = summarize_token(kept.revoke(settings.home, id_, now), now)
    if as_json:
        output.emit(found)
    else:
        output.say(
            f"{found.id} no longer opens {found.tenant}{describe_descendants(settings, id_)}"
        )
