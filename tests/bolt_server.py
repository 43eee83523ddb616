"""A server that speaks Bolt and Cypher, for tests of the Neo4j copy: ArcadeDB from its Python
package. `make bolt` installs that into a separate environment, which runs this file.

    .bolt/bin/python tests/bolt_server.py FOLDER PORT
"""

import os
import sys
from pathlib import Path

USER, PASSWORD = "root", "only-for-tests"


def run(folder: Path, port: int) -> None:
    """Serve on loopback until standard input ends; print `ready` once listening."""
    from arcadedb_embedded.server import ArcadeDBServer  # type: ignore[import-not-found]

    config = {
        "http_port": port + 1,
        "server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
        "bolt_port": port,
        "bolt_defaultDatabase": "neo4j",
    }
    server = ArcadeDBServer(
        str(folder), root_password=PASSWORD, config=config, jvm_kwargs={"heap_size": "512m"}
    )
    server.start()
    server.create_database("neo4j")
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)  # its regular shutdown takes a minute


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
