"""
Jobs & snapshots: the served build and its checks, refused builds, and the jobs that learn.
"""

from contextlib import suppress

import msgspec
from flask import Blueprint, Response, g, make_response, render_template, request, url_for
from mnemolog.wire import NewToken

from serve.dashboard.page_context import Site, back, tenant_url
from serve.server import tenant_admin as access
from store.home import failures
from store.home.errors import InvalidInput, LogError, NoManifest, SnapshotDamaged
from store.home.registry import dagster_ui
from store.home.tokens import PER_MINUTE, SCOPES, Wanted
from store.maintenance import build_state, quarantine
from store.plans import job_catalog, plans
from store.replica.state import lag
from store.snapshots import manifest as manifests
from store.sync.membership import standing


def jobs_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("jobs", __name__)

    @pages.get("/t/<tenant>/jobs")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        with opened.reader.view() as view:
            current, tail = view.snapshots.manifest, view.tail.changes
        ui = dagster_ui(site.settings)
        return render_template(
            "jobs.html",
            served=current,
            kept=list(manifests.list_manifests(opened.tenant)),
            tail=tail,
            refusal=manifests.last_refusal(opened.tenant),
            begun=build_state.last_build_start(opened.tenant),
            replica=lag(opened.tenant, opened.log, site.settings.choices.replica),
            sync=standing(opened.tenant, opened.log),
            ui=ui.url if ui else None,
            switches=job_catalog.load_switches(opened.tenant),
            jobs=job_catalog.NAMES,
            hours={name: job_catalog.start_time(name) for name in job_catalog.NAMES},
            last={plan.body.job: plan for plan in plans.newest(opened.log)},
        )

    @pages.post("/t/<tenant>/jobs/build")
    def build(tenant: str) -> Response:
        opened = site.tenant(tenant)
        if site.tenants.build_now(opened):
            text = "A build has started. It is served as soon as its checks pass."
            return site.redirect(tenant_url("jobs.index"), text)
        return site.redirect(tenant_url("jobs.index"), "A build is already running.", "warn")

    @pages.post("/t/<tenant>/jobs/switch")
    def switch(tenant: str) -> Response:
        opened = site.tenant(tenant)
        name, on = request.form.get("job", ""), request.form.get("on") == "1"
        job_catalog.set_switches(opened.tenant, [name], on=on)
        text = f"{name} runs by itself {'from now on' if on else 'no longer'}."
        return site.redirect(back(tenant_url("jobs.index")), text)

    @pages.post("/t/<tenant>/jobs/run")
    def run(tenant: str) -> Response:
        opened = site.tenant(tenant)
        name = request.form.get("job", "")
        if name not in job_catalog.NAMES:
            names = ", ".join(job_catalog.NAMES)
            raise InvalidInput(f"unknown job {name!r}: choose from {names}")
        if site.tenants.learn_now(opened, name):
            text = f"{name} has started. Its proposals will appear under Proposals."
            return site.redirect(tenant_url("jobs.index"), text)
        return site.redirect(tenant_url("jobs.index"), "A job is already running.", "warn")

    return pages


# Tenants & tokens: the memories that this server keeps, and the programs that may read them.

DAY_S = 86_400
LIVES = (("", "never"), ("30", "in 30 days"), ("90", "in 90 days"), ("365", "in a year"))


def access_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("access", __name__)

    def render_page(tenant: str, new: NewToken | None = None) -> str:
        now = site.clock()
        return render_template(
            "access.html",
            known=access.list_tenants(site.settings, g.caller, now),
            tokens=access.list_tokens(site.settings, site.tenant(tenant).tenant, now),
            scopes=SCOPES,
            lives=LIVES,
            per_minute=PER_MINUTE,
            made=new,
        )

    @pages.get("/t/<tenant>/access")
    def index(tenant: str) -> str:
        return render_page(tenant)

    @pages.post("/t/<tenant>/access/tenants")
    def make_tenant(tenant: str) -> Response:
        site.tenant(tenant)
        name = request.form.get("name", "").strip()
        is_new = site.tenants.make(name)
        text = f"{name} was created." if is_new else f"{name} already exists."
        return site.redirect(url_for("access.index", tenant=name), text)

    @pages.post("/t/<tenant>/access/delete")
    def delete(tenant: str) -> Response:
        site.tenant(tenant)
        if request.form.get("name", "") != tenant:
            raise InvalidInput(f"nothing was deleted: type the tenant's name, {tenant}")
        folder, tokens = site.tenants.delete(tenant, site.clock())
        default = site.settings.choices.tenant
        text = (
            f"{tenant} was moved to {folder}: nothing is destroyed. "
            f"{tokens} of its tokens were revoked."
        )
        return site.redirect(url_for("access.index", tenant=default), text)

    @pages.post("/t/<tenant>/access/tokens")
    def make_token(tenant: str) -> Response:
        opened = site.tenant(tenant)
        token = access.make_token(
            site.settings, g.caller, opened.tenant, _token_form(), site.clock()
        )
        # shown in the answer itself: a redirect would have to keep it somewhere
        return make_response(render_page(tenant, token))

    @pages.post("/t/<tenant>/access/tokens/<id_>/revoke")
    def revoke(tenant: str, id_: str) -> Response:
        opened = site.tenant(tenant)
        token = access.revoke_token(site.settings, opened.tenant, id_, site.clock())
        descendants = access.describe_descendants(site.settings, id_)
        text = f"Token {token.name or token.id} is revoked{descendants}."
        return site.redirect(tenant_url("access.index"), text)

    return pages


def _token_form() -> Wanted:
    """Return the token that the form requests; raise InvalidInput."""
    form = request.form
    try:
        values = {
            "scopes": form.getlist("scope"),
            "name": form.get("name", "").strip(),
            "ttl_s": int(form.get("days") or 0) * DAY_S or None,
            "per_minute": int(form.get("per_minute") or 0) or None,
        }
        return msgspec.convert(values, Wanted)
    except (ValueError, msgspec.ValidationError) as error:
        raise InvalidInput(f"no token was made: {error}") from error


# Errors: failures in the background, and current problems; each with its fix.


def errors_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("errors", __name__)

    @pages.get("/t/<tenant>/errors")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        notices = opened.reader.answer(lambda view: view.notices, without_log=True)
        recorded = [
            (where, failure)
            for where, root in (("home", site.settings.home), (tenant, opened.tenant.root))
            for failure in failures.every(root)
        ]
        held: list[quarantine.Held] = []
        with suppress(LogError):  # a notice of recall reports it
            held = quarantine.entries(opened.log)
        damage = ""
        try:
            manifests.current(opened.tenant)
        except NoManifest:
            pass
        except SnapshotDamaged as error:
            damage = str(error)
        return render_template(
            "errors.html",
            failures=sorted(recorded, key=lambda pair: -pair[1].at),
            notices=notices,
            refusal=manifests.last_refusal(opened.tenant),
            held=held,
            cure=quarantine.CURE,
            damage=damage,
            log_file=site.settings.server_log,
        )

    return pages
