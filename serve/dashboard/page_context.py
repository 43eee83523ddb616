"""
Site: the tenants, clock and flashes that every page works with; the login; addresses.

A page asks `site.tenant(name)` for the tenant of its address first; the bar and the navigation are
that tenant's from then on.
"""

import secrets
import threading
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

import msgspec
from flask import (
    Blueprint,
    Response,
    current_app,
    g,
    redirect,
    render_template,
    request,
    url_for,
)
from werkzeug.exceptions import RequestEntityTooLarge

from serve.server.open_tenants import OpenTenant, OpenTenants
from serve.server.problems import problem
from serve.server.request_guard import owner_only
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import InvalidName, NotFound
from store.home.http_access import SESSION_LIVES_S, Keys, Signer
from store.home.instants import isoformat

# Flashes: the message of a page after a form was sent, across the redirect, with its undo form.
#
# They are in the server's memory and the address only names one, so no link can put words on a
# page. A page loaded again within the time shows it again; a restart drops them.

LIVES_US = 10 * 60 * 1_000_000
MOST = 256
Tone = Literal["ok", "warn", "bad"]


class Undo(msgspec.Struct, frozen=True):
    """The form that undoes an action: its address and its fields."""

    action: str
    fields: tuple[tuple[str, str], ...]
    label: str = "Undo"


class Flash(msgspec.Struct, frozen=True):
    text: str
    tone: Tone = "ok"
    undo: Undo | None = None


class Flashes:
    """The pending flashes, each with its expiry. Threads may share it."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[int, Flash]] = {}
        self._lock = threading.Lock()

    def keep(self, flash: Flash, now: int) -> str:
        """Keep a flash; return its name for the page's address."""
        name = secrets.token_urlsafe(9)
        with self._lock:
            while len(self._waiting) >= MOST:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[name] = (now + LIVES_US, flash)
        return name

    def get(self, name: str | None, now: int) -> Flash | None:
        ends, flash = self._waiting.get(name or "", (0, None))
        return flash if ends > now else None


class Site(msgspec.Struct, frozen=True):
    """Open tenants, the clock (microseconds UTC) and the flashes of the next page."""

    tenants: OpenTenants
    clock: Callable[[], int]
    flashes: Flashes = msgspec.field(default_factory=Flashes)

    @property
    def settings(self) -> Settings:
        return self.tenants.settings

    def tenant(self, name: str) -> OpenTenant:
        """Return the tenant of a page's address; raise NotFound, also for an invalid name."""
        try:
            g.opened = self.tenants.get(name)
        except InvalidName as error:
            raise NotFound(str(error)) from error
        opened: OpenTenant = g.opened
        return opened

    def names(self) -> list[str]:
        """Return the names of the home's tenants, in order."""
        return [tenant.name for tenant in tenants.list_tenants(self.settings.home)]

    def redirect(
        self, url: str, text: str, tone: Tone = "ok", undo: Undo | None = None
    ) -> Response:
        """Return the answer to a submitted form: a redirect to `url`, which shows `text`.

        `undo` is a form that page offers beside it.
        """
        name = self.flashes.keep(Flash(text, tone, undo), self.clock())
        joint = "&" if "?" in url else "?"
        return see_other(f"{url}{joint}{urlencode({'flash': name})}")

    def flash(self) -> Flash | None:
        """Return the flash that the address of the page names, if any."""
        return self.flashes.get(request.args.get("flash"), self.clock())


def see_other(url: str) -> Response:
    """Return a redirect that a browser follows with a GET."""
    answer = redirect(url, HTTPStatus.SEE_OTHER)
    assert isinstance(answer, Response)
    return answer


PART = "Mnemolog-Part"  # the header of a script's request for the changing part of a page


def is_part() -> bool:
    """Return True if a script requests the list without the page around it."""
    return PART in request.headers


def tenant_url(endpoint: str, **values: object) -> str:
    """Return the address of a page of the present page's tenant."""
    opened: OpenTenant = g.opened
    return _address(opened.tenant.name, endpoint, tuple(values.items()))


@lru_cache(maxsize=8_192)  # a list has hundreds of them, at 50 microseconds each
def _address(tenant: str, endpoint: str, values: tuple[tuple[str, Any], ...]) -> str:
    return url_for(endpoint, tenant=tenant, **dict(values))


def back(otherwise: str) -> str:
    """Return the address in a form's field `back` if it is this tenant's, else `otherwise`.

    The name of a flash is left out of it.
    """
    opened: OpenTenant = g.opened
    try:
        sent = urlsplit(request.form.get("back", ""))
    except ValueError:  # a bracket without its other
        return otherwise
    is_ours = sent.path.startswith(f"/t/{opened.tenant.name}/") and not sent.netloc
    if sent.scheme or not is_ours or "\\" in sent.path or ".." in sent.path.split("/"):
        return otherwise
    query = "&".join(
        part for part in sent.query.split("&") if part and not part.startswith("flash=")
    )
    return f"{sent.path}?{query}" if query else sent.path


# Login and logout: the one-time link, the form behind it, and the session cookie.
#
# Opening the link changes nothing, as a GET may not: the page it shows sends the key by a form, at
# once where scripts run. Only the owner's token makes keys, so a link cannot log in another user.

_LONGEST = 200  # characters of a key that are read
_MOST = 4_096  # bytes of its form: the sender is unknown, and a large form takes seconds to parse


def login_blueprint(signer: Signer, clock: Callable[[], int]) -> Blueprint:
    """Return the routes of login and logout."""
    pages, keys = Blueprint("login", __name__), Keys()

    @pages.post("/v1/logins")
    def make_key() -> Response:
        if (refused := owner_only()) is not None:
            return refused
        # a page is about to be opened: compile all templates, 0.2 s together
        for name in current_app.jinja_env.list_templates():
            current_app.jinja_env.get_template(name)
        key, ends = keys.make(clock())
        link = {"path": f"/login?key={key}", "expires_at": isoformat(ends)}
        return Response(msgspec.json.encode(link), HTTPStatus.CREATED, mimetype="application/json")

    @pages.get("/login")
    def show() -> str | Response:
        key = request.args.get("key", "")[:_LONGEST]
        if not key and "login" in g:
            return see_other("/")
        return render_template("login.html", key=key)

    @pages.post("/login")
    def enter() -> Response:
        now = clock()
        if (request.content_length or 0) > _MOST:
            raise RequestEntityTooLarge
        if not keys.take(request.form.get("key", "")[:_LONGEST], now):
            return problem("link_spent", "run `mnemolog dashboard` again: it makes a new link")
        answer = see_other("/")
        answer.set_cookie(
            signer.cookie,
            signer.value(now),
            max_age=SESSION_LIVES_S,
            path="/",
            httponly=True,
            samesite="Strict",
        )
        return answer

    @pages.post("/logout")
    def leave() -> Response:
        signer.end(g.login, clock())
        answer = see_other("/login")
        answer.delete_cookie(signer.cookie, path="/", httponly=True, samesite="Strict")
        return answer

    return pages
