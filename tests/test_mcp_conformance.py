"""
The official conformance suite and the Inspector against our endpoint: `make mcp-conformance`.

Both need Node 22 and are installed into `.node` by that target, as in CI; if they are missing,
these tests are skipped with that reason.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serve.mcp_server.tools import TOOLS

ROOT = Path(__file__).parents[1]
NODE = ROOT / ".node"
PROGRAMS = NODE / "node_modules" / ".bin"
LATEST_S = 120
REQUIRED = {"2026-07-28": 37, "2025-11-25": 30}
ERAS = ("legacy", "modern", "auto")

pytestmark = pytest.mark.skipif(
    not (NODE / ".ready").exists(), reason="no tools in .node: run `make node-tools`"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that serves the fixture's registry and ours."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            ROOT / "tests" / "mcp_fixture_server.py",
            tmp_path_factory.mktemp("home"),
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    process.kill()
    process.communicate()


def run(tool: str, *words: str) -> "subprocess.CompletedProcess[str]":
    environ = os.environ | {
        "PATH": os.pathsep.join([str(PROGRAMS), str(NODE / "bin"), os.environ["PATH"]])
    }
    return subprocess.run(
        [PROGRAMS / tool, *words], capture_output=True, text=True, env=environ, timeout=LATEST_S
    )


@pytest.mark.parametrize("revision", REQUIRED)
def test_every_scenario_that_a_revision_requires_passes(server: str, revision: str):
    url = f"{server}/v1/fixture/mcp"
    completed = run("conformance", "server", "--url", url, "--requirements", revision)
    assert completed.returncode == 0, completed.stdout[-4_000:]
    listed = run("conformance", "list", "--requirements", revision).stdout
    servers = listed.partition("Server scenarios")[2].partition("Client scenarios")[0]
    required = set(re.findall(r"- ([\w-]+)", servers))
    passed = set(re.findall(r"^✓ ([\w-]+):", completed.stdout, re.MULTILINE))
    assert len(required) == REQUIRED[revision] and required <= passed


def inspected(url: str, era: str, *words: str) -> Any:
    options = ["--transport", "http", "--protocol-era", era, "--format", "json"]
    completed = run("mcp-inspector", "--cli", url, *options, *words)
    assert completed.returncode == 0, completed.stderr + completed.stdout
    return json.loads(completed.stdout)["result"]


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_finds_our_tools_portable_in_every_era(server: str, era: str):
    url = f"{server}/mcp"
    tools = inspected(url, era, "--method", "tools/list", "--strict")["tools"]
    assert [tool["name"] for tool in tools] == [tool.name for tool in TOOLS]
    text = json.dumps({"content": f"We deploy from the {era} branch"})
    call = ("--method", "tools/call", "--tool-name")
    inspected(url, era, *call, "remember", "--tool-args-json", text)
    answer = inspected(
        url, era, *call, "recall", "--tool-args-json", json.dumps({"query": "deploy"})
    )
    assert era in answer["content"][0]["text"]


def test_the_inspector_reads_resources_and_the_prompt(server: str):
    url = f"{server}/mcp"
    inspected(url, "modern", "--method", "tools/call", "--tool-name", "remember",
              "--tool-args-json", '{"content": "The clock is injected"}')  # fmt: skip
    resources = inspected(url, "modern", "--method", "resources/list")["resources"]
    read = inspected(url, "legacy", "--method", "resources/read", "--uri", resources[0]["uri"])
    assert read["contents"][0]["text"]
    assert inspected(url, "auto", "--method", "prompts/get", "--prompt-name", "brief")["messages"]
