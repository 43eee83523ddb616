"""
Site: what every page works on, and how it speaks to the shell around it.

A page asks `site.tenant(name)` for the tenant of its address first; the bar and the navigation are
that tenant's from then on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlencode, urlsplit

from flask import Response, g, redirect, request, url_for

from serve.dashboard.flashes import Flash, Flashes, Tone, Undo
from serve.server.open_tenants import OpenTenant, OpenTenants
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import InvalidName, NotFound


@dataclass(frozen=True, slots=True)
class Site:
    """Open tenants, the clock (microseconds UTC) and what waits to be said on the next page."""

    tenants: OpenTenants
    clock: Callable[[], int]
    flashes: Flashes = field(default_factory=Flashes)

    @property
    def settings(self) -> Settings:
        return self.tenants.settings

    def tenant(self, name: str) -> OpenTenant:
        """Return the tenant of a page's address; raise NotFound, for a name we refuse too."""
        try:
            g.opened = self.tenants.get(name)
        except InvalidName as error:
            raise NotFound(str(error)) from error
        opened: OpenTenant = g.opened
        return opened

    def names(self) -> list[str]:
        """Return the names of the home's tenants, in order."""
        return [one.name for one in tenants.list_tenants(self.settings.home)]

    def done(self, url: str, text: str, tone: Tone = "ok", undo: Undo | None = None) -> Response:
        """Return what a form that was carried out is answered with: the page at `url` says `text`.

        `undo` is a form that page offers beside it.
        """
        name = self.flashes.keep(Flash(text, tone, undo), self.clock())
        joint = "&" if "?" in url else "?"
        answer = redirect(f"{url}{joint}{urlencode({'flash': name})}", HTTPStatus.SEE_OTHER)
        assert isinstance(answer, Response)
        return answer

    def flash(self) -> Flash | None:
        """Return what the page asked for has to say, if anything."""
        return self.flashes.get(request.args.get("flash"), self.clock())


def tenant_url(endpoint: str, **values: object) -> str:
    """Return the address of a page of the tenant that the present page is about."""
    opened: OpenTenant = g.opened
    return url_for(endpoint, tenant=opened.tenant.name, **values)  # type: ignore[arg-type]


def back(otherwise: str) -> str:
    """Return the address a form says it was sent from, `back`, if it is one of this tenant's.

    The address of a flash is left out of it.
    """
    opened: OpenTenant = g.opened
    try:
        sent = urlsplit(request.form.get("back", ""))
    except ValueError:  # a bracket without its other
        return otherwise
    is_ours = sent.path.startswith(f"/t/{opened.tenant.name}/") and not sent.netloc
    if sent.scheme or not is_ours or "\\" in sent.path or ".." in sent.path.split("/"):
        return otherwise
    kept = "&".join(one for one in sent.query.split("&") if one and not one.startswith("flash="))
    return f"{sent.path}?{kept}" if kept else sent.path
