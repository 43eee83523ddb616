"""
The shell around the pages: what they are dressed in, what protects them, and what an error looks
like there.
"""

import mimetypes
from collections.abc import Callable, Mapping
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from flask import (
    Blueprint,
    Flask,
    Request,
    Response,
    current_app,
    g,
    redirect,
    render_template,
    request,
    url_for,
)
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
from serve.dashboard.page_context import Site, login_blueprint, tenant_url
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
from store.home.http_access import Keys, Session, Signer

# The static files: read once, served under an address that holds their content's hash, so a
# browser
# may keep them for ever.

FOLDER = Path(__file__).parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Asset(msgspec.Struct, frozen=True):
    data: bytes
    mimetype: str
    digest: str


def assets(folder: Path = FOLDER) -> Mapping[str, Asset]:
    """Return the files of a folder by name, and the scripts of other people in `vendor`."""
    paths = [path for path in sorted(folder.iterdir()) if path.is_file()]
    paths += sorted((folder / "vendor").glob("*.js"))
    return {path.name: _asset(path) for path in paths}


def _asset(path: Path) -> Asset:
    data = path.read_bytes()
    # not the system's table first: it may say anything of .js, which is not run then
    mimetype = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return Asset(data, mimetype or "application/octet-stream", sha256(data).hexdigest()[:12])


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
    "Referrer-Policy": "same-origin",  # `no-referrer` would hide the Origin that the gate asks for
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_FOR_EVER = "public, max-age=31536000, immutable"
MOST_TENANTS = 50  # that the switcher lists

_decoder = msgspec.json.Decoder(Problem)


def login_of(owners: Signer, clock: Callable[[], int]) -> Callable[[Request], Session | None]:
    """Return what says who is logged in at the browser that asks."""
    return lambda asked: owners.session(asked.cookies.get(owners.cookie), clock())


def register(app: Flask, tenants: OpenTenants, owners: Signer, clock: Callable[[], int]) -> None:
    """Add the pages, their shell and the way in to an application."""
    site, files = Site(tenants, clock), assets()
    app.jinja_options = {
        "undefined": StrictUndefined,  # a misspelt name is an error, not an empty place
        "trim_blocks": True,
        "lstrip_blocks": True,
    }
    _teach(app, site, files)
    app.register_blueprint(login_blueprint(Keys(), owners, clock, lambda: _compile(app)))
    app.register_blueprint(_doors(site, files))
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint(site))
    app.after_request(_finish)


def _compile(app: Flask) -> None:
    """Compile the templates, 0.2 s together, before the first page waits for its own."""
    for name in app.jinja_env.list_templates():
        app.jinja_env.get_template(name)


def _doors(site: Site, files: Mapping[str, Asset]) -> Blueprint:
    """Return the routes of no page: the way in, and the static files."""
    doors = Blueprint("doors", __name__, template_folder="templates")

    @doors.get("/")
    def home() -> Any:
        return redirect(f"/t/{site.settings.choices.tenant}/", HTTPStatus.SEE_OTHER)

    @doors.get("/t/<tenant>/")
    def first(tenant: str) -> Any:
        site.tenant(tenant)
        return redirect(tenant_url(_available_places()[0].endpoint), HTTPStatus.SEE_OTHER)

    @doors.get("/static/<digest>/<name>")
    def static(digest: str, name: str) -> Response:
        asset = files.get(name)
        if asset is None or asset.digest != digest:
            raise NotFound(f"no file {name!r} in this version: reload the page")
        answer = Response(asset.data, mimetype=asset.mimetype)
        answer.headers["Cache-Control"] = _FOR_EVER
        return answer

    @doors.get("/favicon.ico")
    def icon() -> Any:
        return redirect(_static(files, "icon.svg"), HTTPStatus.SEE_OTHER)

    return doors


def _teach(app: Flask, site: Site, files: Mapping[str, Asset]) -> None:
    """Give the templates the filters and names that the recipe in `pages` speaks of."""
    for of in (
        clean,
        line,
        passages,
        prose,
        mark,
        markdown,
        plain,
        iso,
        stamp,
        number,
        size,
        pretty,
    ):
        app.add_template_filter(of)
    app.add_template_filter(lambda at: ago(at, site.clock()), "ago")
    app.add_template_global(lambda name: _static(files, name), "static")
    app.add_template_global(tenant_url, "tenant_url")
    app.add_template_global(differences, "differences")
    app.add_template_global(_csrf, "csrf")
    app.add_template_global(_here, "here")
    app.context_processor(lambda: _around(site))


def _around(site: Site) -> dict[str, Any]:
    """Return what the frame of every page says; of none but its title where nobody is logged in."""
    opened = g.get("opened")
    return {
        "version": version(),
        "is_in": "login" in g,
        "tenant": opened.tenant.name if opened else None,
        "places": _available_places() if opened else (),
        "place": request.blueprint,
        "tenants": site.names,
        "place_url": _place_url,
        "most_tenants": MOST_TENANTS,
        "manifest": lambda: _manifest(opened),
        "flash": site.flash() if "login" in g else None,
    }


def _available_places() -> list[Place]:
    return [place for place in PLACES if place.endpoint in current_app.view_functions]


def _place_url(tenant: str) -> str:
    """Return where another tenant's page of the present sort is."""
    known = {place.name: place.endpoint for place in _available_places()}
    return url_for(known.get(request.blueprint or "", "doors.first"), tenant=tenant)


def _manifest(opened: OpenTenant) -> int | None:
    """Return the number of the manifest that is served, None before the first build."""
    manifest = opened.reader.answer(lambda view: view.snapshots.manifest, without_log=True)
    return manifest.number if manifest else None


def _csrf() -> Markup:
    """Return the field that every form of a page carries."""
    return Markup('<input type="hidden" name="csrf" value="{}">').format(g.login.csrf)


def _here() -> str:
    """Return the address of the present page, to come back to."""
    return request.full_path.rstrip("?")


def _static(files: Mapping[str, Asset], name: str) -> str:
    return url_for("doors.static", digest=files[name].digest, name=name)


def _finish(answer: Response) -> Response:
    """Dress an error of a page as a page, and add the headers that protect it; a program's answer
    is what it says it is.
    """
    if request_guard.is_for_programs(request.path):
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer
    if answer.mimetype == MIMETYPE:
        _dress(answer)
    for name, value in HEADERS.items():
        answer.headers[name] = value
    answer.headers.setdefault("Cache-Control", "no-store")
    return answer


def _dress(answer: Response) -> None:
    problem = _decoder.decode(answer.get_data())
    answer.set_data(render_template("error.html", problem=problem))
    answer.mimetype = "text/html"
