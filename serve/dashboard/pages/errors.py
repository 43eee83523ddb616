"""
Errors: what went wrong where nobody looked on, and what is broken now; each with its cure.
"""

from flask import Blueprint, render_template

from serve.dashboard.sites import Site
from store import quarantine
from store.home import failures
from store.home.errors import LogError, NoManifest, SnapshotDamaged
from store.home.tenant import Tenant
from store.log import EventLog
from store.snapshots import manifest as manifests


def blueprint(site: Site) -> Blueprint:
    pages = Blueprint("errors", __name__)

    @pages.get("/t/<tenant>/errors")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        notices = opened.reader.answered(lambda view: view.notices, without_log=True)
        kept = [
            (where, one)
            for where, root in (("home", site.settings.home), (tenant, opened.tenant.root))
            for one in failures.every(root)
        ]
        return render_template(
            "errors.html",
            failures=sorted(kept, key=lambda pair: -pair[1].at),
            notices=notices,
            refusal=manifests.last_refusal(opened.tenant),
            held=_held(opened.log),
            cure=quarantine.CURE,
            damage=_damage(opened.tenant),
            log_file=site.settings.server_log,
        )

    return pages


def _held(log: EventLog) -> list[quarantine.Held]:
    """Return the memories that builds leave out; none where the log cannot be read."""
    try:
        return quarantine.held(log)
    except LogError:  # a notice of recall says so
        return []


def _damage(tenant: Tenant) -> str:
    """Return what is broken of what a tenant serves; nothing where all is well."""
    try:
        manifests.current(tenant)
    except NoManifest:
        return ""
    except SnapshotDamaged as error:
        return str(error)
    return ""
