"""
schemathesis asks every operation of the document, in every way it knows, and finds nothing wrong.

All of its checks, on a memory of some forty notes: what it makes up from the document is accepted,
what the document forbids is refused, every answer is as declared, and calls that follow one another
(a memory that was just made, one that was just forgotten) go together. `SCHEMATHESIS=500` asks 500
requests of each operation instead of a few.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from flask import Flask
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder

from api_memory import NOW, populated
from serve.app import create_app
from serve.process.tenants import OpenTenants
from store.config import Settings

EXAMPLES = int(os.environ.get("SCHEMATHESIS", "4"))

CONFIG: dict[str, Any] = {
    "seed": 7,
    "auth": {"openapi": {"token": {"bearer": "owner"}}},
    "generation": {
        "max-examples": EXAMPLES,
        "deterministic": True,
        "database": "none",
        "no-shrink": True,
    },
    "phases": {"stateful": {"max-steps": 6}},
}


@pytest.fixture
def app(built) -> Iterator[Flask]:
    populated(built)
    opened = OpenTenants(Settings(built.tenant.root.parent.parent))
    # a clock of a thousand seconds a request: no token asks too often
    yield create_app(opened, "owner", lambda: NOW, iter(range(0, 10**9, 1_000)).__next__)
    opened.close()


def test_no_request_finds_a_fault(app: Flask):
    config = SchemathesisConfig.from_dict(CONFIG)
    schema = schemathesis.openapi.from_wsgi("/v1/openapi.json", app, config=config)
    found: dict[str, str] = {}
    phases = {}
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            phases[event.phase.value] = phases.get(event.phase.value, 0) + len(event.recorder.cases)
            found |= dict(_faults(event.recorder))
        elif isinstance(event, events.NonFatalError | events.FatalError):
            found[f"error {len(found)}"] = f"{vars(event) if hasattr(event,'__dict__') else event.info.format() if hasattr(event,'info') else event.exception!r}"
    print(phases)
    assert not found, "\n\n".join(f"{name}\n{said}" for name, said in sorted(found.items()))


def _faults(recorder: ScenarioRecorder) -> Iterator[tuple[str, str]]:
    """Yield what checks found, one of a kind for each operation."""
    for case_id, checks in recorder.checks.items():
        for check in checks:
            if (failure := check.failure_info) is not None:
                case = recorder.cases[case_id].value
                name = f"{case.operation.label}: {check.name}"
                yield name, f"{failure.failure}\n{failure.code_sample}"
