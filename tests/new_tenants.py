"""Tenants without a memory, opened as a server opens them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from serve.server.open_tenants import OpenTenants
from store.home.config import Settings
from store.home.tenant import tenant
from store.log.event_log import EventLog


@contextmanager
def new_tenants(home: Path, *names: str) -> Iterator[OpenTenants]:
    """Create the logs of the named tenants, or of the default one; yield the tenants, opened."""
    for name in names or ("default",):
        EventLog(tenant(home, name).log, create=True).close()
    opened = OpenTenants(Settings(home))
    yield opened
    opened.close()
