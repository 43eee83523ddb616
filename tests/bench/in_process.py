"""
Recall in this process, for the gate: `in_process.py HOME` reads lines of JSON,
`{"mode": ..., "queries": [...]}`, and answers each with a line of the CPU seconds of all threads.

`gate.py` runs it with the code of either version, so it imports nothing but the product.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from serve.reader.reader import Reader
from serve.recall.request import RecallRequest, answer
from store.embedders.embedder import make_embedder
from store.home import tenant as tenants
from store.home.config import Choices
from store.log.event_log import EventLog


def main() -> None:
    home, choices = Path(sys.argv[1]), Choices()
    tenant = tenants.tenant(home)
    with EventLog(tenant.log) as log:
        reader = Reader(tenant, log, make_embedder(choices.embedder, home))
        for line in sys.stdin:
            print(json.dumps({"cpu_s": cpu_s(reader, choices, **json.loads(line))}), flush=True)


def cpu_s(reader: Reader, choices: Choices, mode: Any, queries: list[str]) -> float:
    """Return the CPU seconds of recalls; exit if a query has no hits."""
    began = time.process_time()
    for query in queries:
        request = RecallRequest(query=query, mode=mode, touch=False)
        payload, _ = answer(reader, request, choices, time.time_ns() // 1_000)
        if not payload["hits"]:
            sys.exit(f"no hits for {query!r}")
    return time.process_time() - began


if __name__ == "__main__":
    main()
