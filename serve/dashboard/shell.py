"""
The shell around the pages: their frame, their static files, the headers that protect them, and
error pages.
"""

import mimetypes
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from flask import Blueprint, Flask, Request, Response, g, render_template, request, url_for
from jinja2 import StrictUndefined
from markupsafe import Markup

from serve import version
from serve.dashboard import (
    graph_page,
    holds_page,
    memory_list_page,
    operations_pages,
    overview_page,
    proposals_page,
    recall_pages,
    review_pages,
    session_pages,
)
from serve.dashboard.markdown import mark, markdown, plain
from serve.dashboard.page_context import Site, login_blueprint, see_other, tenant_url
from serve.dashboard.rendering import (
    ago,
    clean,
    differences,
    iso,
    line,
    number,
    passages,
    pretty,
    prose,
    stamp,
)
from serve.formatting import size
from serve.server import request_guard
from serve.server.open_tenants import OpenTenant, OpenTenants
from serve.server.problems import MIMETYPE, Problem
from store.home.errors import NotFound
from store.home.http_access import Session, Signer

# The static files: read once, served under an address that holds their content's hash, so a
# browser may keep them for ever.

FOLDER = Path(__file__).parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Asset(msgspec.Struct, frozen=True):
    data: bytes
    mimetype: str
    digest: str


def assets() -> Mapping[str, Asset]:
    """Return the static files by name, and third-party scripts in `vendor`."""
    paths = [path for path in sorted(FOLDER.iterdir()) if path.is_file()]
    paths += sorted((FOLDER / "vendor").glob("*.js"))
    files = {}
    for path in paths:
        data = path.read_bytes()
        # not the system's table first: with a wrong type for .js no script runs
        mimetype = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
        digest = sha256(data).hexdigest()[:12]
        files[path.name] = Asset(data, mimetype or "application/octet-stream", digest)
    return files


# The pages of a tenant, in the order of the navigation.


class Place(msgspec.Struct, frozen=True):
    """A page of the navigation: its blueprint's name, its title, and its key after `g`.

    Its address is that of the blueprint's view `index`.
    """

    name: str
    title: str
    key: str

    @property
    def endpoint(self) -> str:
        return f"{self.name}.index"


PLACES = (
    Place("overview", "Overview", "o"),
    Place("memories", "Memories", "m"),
    Place("recalls", "Recalls", "c"),
    Place("sessions", "Sessions", "s"),
    Place("lab", "Recall lab", "r"),
    Place("graph", "Graph", "g"),
    Place("lessons", "Lessons", "l"),
    Place("holds", "What holds", "h"),
    Place("goals", "Goals", "a"),  # "aims": o is taken
    Place("proposals", "Proposals", "p"),
    Place("jobs", "Jobs & snapshots", "j"),
    Place("access", "Tenants & tokens", "t"),
    Place("errors", "Errors", "e"),
)
BLUEPRINTS: tuple[Callable[[Site], Blueprint], ...] = (
    overview_page.overview_blueprint,
    memory_list_page.memories_blueprint,
    recall_pages.recalls_blueprint,
    session_pages.sessions_blueprint,
    recall_pages.lab_blueprint,
    graph_page.graph_blueprint,
    review_pages.lessons_blueprint,
    holds_page.holds_blueprint,
    review_pages.goals_blueprint,
    proposals_page.proposals_blueprint,
    operations_pages.jobs_blueprint,
    operations_pages.access_blueprint,
    operations_pages.errors_blueprint,
)


# only our own files, no inline style or script, no frame, no form that leaves
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # `no-referrer` would hide the Origin that the guard needs
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_FOR_EVER = "public, max-age=31536000, immutable"
MOST_TENANTS = 50  # that the switcher lists

_decoder = msgspec.json.Decoder(Problem)


def login_of(owners: Signer, clock: Callable[[], int]) -> Callable[[Request], Session | None]:
    """Return a function that gives the session of a request's cookie."""
    return lambda incoming: owners.session(incoming.cookies.get(owners.cookie), clock())


def register(app: Flask, tenants: OpenTenants, owners: Signer, clock: Callable[[], int]) -> None:
    """Add the pages, their shell and the login to an application."""
    site, files = Site(tenants, clock), assets()
    app.jinja_options = {
        "undefined": StrictUndefined,  # a misspelt name is an error, not an empty place
        "trim_blocks": True,
        "lstrip_blocks": True,
    }
    _add_template_names(app, site, files)
    app.register_blueprint(login_blueprint(owners, clock))
    app.register_blueprint(_doors_blueprint(site, files))
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint(site))
    app.after_request(_finish)


def _doors_blueprint(site: Site, files: Mapping[str, Asset]) -> Blueprint:
    """Return the routes other than pages: redirects to the first page, and the static files."""
    doors = Blueprint("doors", __name__, template_folder="templates")

    @doors.get("/")
    def home() -> Response:
        return see_other(f"/t/{site.settings.choices.tenant}/")

    @doors.get("/t/<tenant>/")
    def first(tenant: str) -> Response:
        site.tenant(tenant)
        return see_other(tenant_url(PLACES[0].endpoint))

    @doors.get("/static/<digest>/<name>")
    def static(digest: str, name: str) -> Response:
        asset = files.get(name)
        if asset is None or asset.digest != digest:
            raise NotFound(f"no file {name!r} in this version: reload the page")
        answer = Response(asset.data, mimetype=asset.mimetype)
        answer.headers["Cache-Control"] = _FOR_EVER
        return answer

    @doors.get("/favicon.ico")
    def icon() -> Response:
        return see_other(_static(files, "icon.svg"))

    return doors


def _add_template_names(app: Flask, site: Site, files: Mapping[str, Asset]) -> None:
    """Give the templates their filters and global names."""
    texts = (clean, line, passages, prose, mark, markdown, plain)
    for template_filter in (*texts, iso, stamp, number, size, pretty):
        app.add_template_filter(template_filter)
    app.add_template_filter(lambda at: ago(at, site.clock()), "ago")
    app.add_template_global(lambda name: _static(files, name), "static")
    app.add_template_global(tenant_url, "tenant_url")
    app.add_template_global(differences, "differences")
    app.add_template_global(_csrf, "csrf")
    app.add_template_global(_here, "here")
    app.context_processor(lambda: _frame_values(site))


def _frame_values(site: Site) -> dict[str, Any]:
    """Return the values of every page's frame; without a login it has only a title."""
    opened = g.get("opened")
    return {
        "version": version(),
        "is_in": "login" in g,
        "tenant": opened.tenant.name if opened else None,
        "places": PLACES if opened else (),
        "place": request.blueprint,
        "tenants": site.names,
        "place_url": _place_url,
        "most_tenants": MOST_TENANTS,
        "manifest": lambda: _manifest(opened),
        "flash": site.flash() if "login" in g else None,
    }


def _place_url(tenant: str) -> str:
    """Return the address of the present page for another tenant."""
    endpoints = {place.name: place.endpoint for place in PLACES}
    return url_for(endpoints.get(request.blueprint or "", "doors.first"), tenant=tenant)


def _manifest(opened: OpenTenant) -> int | None:
    """Return the number of the served manifest, None before the first build."""
    manifest = opened.reader.answer(lambda view: view.snapshots.manifest, without_log=True)
    return manifest.number if manifest else None


def _csrf() -> Markup:
    """Return the field that every form of a page carries."""
    return Markup('<input type="hidden" name="csrf" value="{}">').format(g.login.csrf)


def _here() -> str:
    """Return the address of the present page, to return to."""
    return request.full_path.rstrip("?")


def _static(files: Mapping[str, Asset], name: str) -> str:
    return url_for("doors.static", digest=files[name].digest, name=name)


def _finish(answer: Response) -> Response:
    """Render a page's error as a page, and add its security headers; an answer to a program gets
    only `nosniff`.
    """
    if request_guard.is_for_programs(request.path):
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer
    if answer.mimetype == MIMETYPE:
        problem = _decoder.decode(answer.get_data())
        answer.set_data(render_template("error.html", problem=problem))
        answer.mimetype = "text/html"
    for name, value in HEADERS.items():
        answer.headers[name] = value
    answer.headers.setdefault("Cache-Control", "no-store")
    return answer
