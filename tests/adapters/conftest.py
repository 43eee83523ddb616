"""A live server for tests of adapters, in its own environment, as they are in theirs."""

import os
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from mnemolog import Client

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("PROGRAM_PYTHON", str(ROOT / ".venv/bin/python"))
NUMBERS = count(1)
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # nothing is sent anywhere


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a running server."""
    home = tmp_path_factory.mktemp("adapters") / "home"
    output = home.with_name("output.txt")
    with output.open("wb") as file:
        process = subprocess.Popen(
            [PYTHON, "-P", "-m", "serve"],
            cwd=ROOT,
            env=os.environ | {"MNEMOLOG_HOME": str(home)},
            stdout=file,
            stderr=file,
        )
    until = time.monotonic() + 60
    while "http://" not in output.read_text() and process.poll() is None:
        assert time.monotonic() < until, output.read_text()
        time.sleep(0.05)
    assert process.poll() is None, output.read_text()
    yield home
    process.terminate()
    process.wait(30)


@pytest.fixture
def tenant(home: Path) -> str:
    """A tenant with an empty memory."""
    name = f"t{next(NUMBERS)}"
    with Client(home=home) as owner:
        owner.tenants.create(name)
    return name


@pytest.fixture
def client(home: Path, tenant: str) -> Iterator[Client]:
    with Client(home=home, tenant=tenant) as client:
        yield client
