"""
Serve the fixture registry at /v1/fixture/mcp and the product's at /mcp, behind the product's own
request guard, in a temporary home; print the port.

The conformance suite sends no token: it is added to each request here, before the guard.
"""

import sys
from pathlib import Path
from typing import Any

import mcp_fixture
import waitress

from serve.app import create_app
from serve.mcp_server.endpoint import blueprint
from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import Settings
from store.log.event_log import EventLog

TOKEN = "fixture"


def main(home: Path) -> None:
    EventLog(tenant.tenant(home).log, create=True).close()
    app = create_app(OpenTenants(Settings(home)), TOKEN)
    app.register_blueprint(blueprint(mcp_fixture.REGISTRY, "fixture"), url_prefix="/v1/fixture")

    def entered(environ: dict[str, Any], start: Any) -> Any:
        return app(environ | {"HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}, start)

    server = waitress.create_server(entered, host="127.0.0.1", port=0, threads=8, ident=None)
    print(server.effective_port, flush=True)
    server.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
