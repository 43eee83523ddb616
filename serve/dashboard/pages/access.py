"""
Tenants & tokens: whose memories this server keeps, and which programs may ask for them.
"""

import msgspec
from flask import Blueprint, Response, g, make_response, render_template, request, url_for

from serve.dashboard.sites import Site, tenant_url
from serve.server import tenant_admin as access
from store.home.errors import InvalidInput
from store.home.tokens import PER_MINUTE, SCOPES, Wanted

DAY_S = 86_400
LIVES = (("", "never"), ("30", "in 30 days"), ("90", "in 90 days"), ("365", "in a year"))


def blueprint(site: Site) -> Blueprint:
    pages = Blueprint("access", __name__)

    def shown(tenant: str, made: access.NewToken | None = None) -> str:
        now = site.clock()
        return render_template(
            "access.html",
            known=access.list_tenants(site.settings, g.caller, now),
            tokens=access.list_tokens(site.settings, site.tenant(tenant).tenant, now),
            scopes=SCOPES,
            lives=LIVES,
            per_minute=PER_MINUTE,
            made=made,
        )

    @pages.get("/t/<tenant>/access")
    def index(tenant: str) -> str:
        return shown(tenant)

    @pages.post("/t/<tenant>/access/tenants")
    def make_tenant(tenant: str) -> Response:
        site.tenant(tenant)
        name = request.form.get("name", "").strip()
        is_new = site.tenants.make(name)
        said = f"{name} was made." if is_new else f"{name} was there already."
        return site.done(url_for("access.index", tenant=name), said)

    @pages.post("/t/<tenant>/access/delete")
    def delete(tenant: str) -> Response:
        site.tenant(tenant)
        if request.form.get("name", "") != tenant:
            raise InvalidInput(f"nothing was deleted: write the tenant's name, {tenant}")
        done = site.tenants.delete(tenant, site.clock())
        default = site.settings.choices.tenant
        said = (
            f"{tenant} was put away to {done.kept_in}: nothing of it is destroyed. "
            f"{done.tokens} of its tokens ended."
        )
        return site.done(url_for("access.index", tenant=default), said)

    @pages.post("/t/<tenant>/access/tokens")
    def make_token(tenant: str) -> Response:
        opened = site.tenant(tenant)
        made = access.make_token(site.settings, g.caller, opened.tenant, _wanted(), site.clock())
        # shown in the answer itself: a redirect would have to keep it somewhere
        return make_response(shown(tenant, made))

    @pages.post("/t/<tenant>/access/tokens/<id_>/revoke")
    def revoke(tenant: str, id_: str) -> Response:
        opened = site.tenant(tenant)
        token = access.revoke_token(site.settings, opened.tenant, id_, site.clock())
        descendants = access.describe_descendants(site.settings, id_)
        said = f"Token {token.name or token.id} is revoked{descendants}."
        return site.done(tenant_url("access.index"), said)

    return pages


def _wanted() -> Wanted:
    """Return the token that the form asks for; raise InvalidInput."""
    form = request.form
    values = {"scopes": form.getlist("scope"), "name": form.get("name", "").strip()}
    try:
        days = int(form.get("days") or 0)
        asked = {
            "ttl_s": days * DAY_S or None,
            "per_minute": int(form.get("per_minute") or 0) or None,
        }
        return msgspec.convert(values | asked, Wanted)
    except (ValueError, msgspec.ValidationError) as error:
        raise InvalidInput(f"no token was made: {error}") from error
