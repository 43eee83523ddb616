"""
Jobs & snapshots: what is served and was checked, what was refused, and what learns by itself.
"""

from flask import Blueprint, Response, render_template, request

from serve.dashboard.sites import Site, back, tenant_url
from store.builds import upkeep
from store.home.errors import InvalidInput
from store.home.registry import dagster_ui
from store.plans import job_catalog, plans
from store.snapshots import manifest as manifests


def blueprint(site: Site) -> Blueprint:
    pages = Blueprint("jobs", __name__)

    @pages.get("/t/<tenant>/jobs")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        kept = list(manifests.kept(opened.tenant))
        with opened.reader.view() as view:
            current, tail = view.snapshots.manifest, view.tail.changes
        ui = dagster_ui(site.settings)
        return render_template(
            "jobs.html",
            served=current,
            kept=kept,
            tail=tail,
            refusal=manifests.last_refusal(opened.tenant),
            begun=upkeep.last_begun(opened.tenant),
            ui=ui.url if ui else None,
            switches=job_catalog.load_switches(opened.tenant),
            jobs=job_catalog.NAMES,
            hours={name: job_catalog.start_time(name) for name in job_catalog.NAMES},
            last={one.body.job: one for one in plans.newest(opened.log)},
        )

    @pages.post("/t/<tenant>/jobs/build")
    def build(tenant: str) -> Response:
        opened = site.tenant(tenant)
        if site.tenants.build_now(opened):
            said = "A build has begun; it is served as soon as its checks have passed."
            return site.done(tenant_url("jobs.index"), said)
        return site.done(tenant_url("jobs.index"), "A build is running already.", "warn")

    @pages.post("/t/<tenant>/jobs/switch")
    def switch(tenant: str) -> Response:
        opened = site.tenant(tenant)
        name, on = request.form.get("job", ""), request.form.get("on") == "1"
        job_catalog.set_switches(opened.tenant, [name], on=on)
        said = f"{name} runs by itself {'from now on' if on else 'no longer'}."
        return site.done(back(tenant_url("jobs.index")), said)

    @pages.post("/t/<tenant>/jobs/run")
    def run(tenant: str) -> Response:
        opened = site.tenant(tenant)
        name = request.form.get("job", "")
        if name not in job_catalog.NAMES:
            raise InvalidInput(
                f"there is no job {name!r}: there are {', '.join(job_catalog.NAMES)}"
            )
        if site.tenants.learn_now(opened, name):
            said = f"{name} has begun: what it proposes is among the proposals in a while."
            return site.done(tenant_url("jobs.index"), said)
        return site.done(tenant_url("jobs.index"), "A job is running already.", "warn")

    return pages
