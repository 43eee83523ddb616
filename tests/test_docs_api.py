"""The claims of docs/api.md: its sessions run on a real server, its tables are complete."""

import doctest
import os
import re
import shutil
import subprocess
from pathlib import Path

import mnemolog
import pytest
from mnemolog import errors
from test_docs import FLAGS, ROOT
from test_server import Server, Start, start

from serve.server.callers import SCOPES
from serve.server.problems import TITLES

__all__ = ["start"]  # the fixture of test_server

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
# of the dashboard, or for requests outside the API
OF_NO_CALL = {"no_csrf", "link_spent", "method_not_allowed", "wrong_host"}
_MARK = r"<!-- tests/test_docs_api.py runs this.*?-->\n"


def blocks(language: str) -> str:
    """Return the page's checked sessions in one language, joined."""
    return "".join(re.findall(rf"{_MARK}```{language}\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def server(start: Start) -> Server:
    return start(build_after="0").ready()


@pytest.mark.skipif(not shutil.which("curl") or not shutil.which("bash"), reason="no curl")
def test_its_calls_with_curl_print_what_it_says(server: Server, tmp_path: Path):
    environment = os.environ | {
        "URL": f"http://127.0.0.1:{server.port}",
        "TOKEN": server.token,
    }
    commands = re.split(r"^\$ ", blocks("console"), flags=re.MULTILINE)[1:]
    before = ""
    for one in commands:
        command, _, expected = one.partition("\n")
        result = subprocess.run(
            ["bash", "-c", f"{before}{command}"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert result.returncode == 0, result.stderr
        before += f"{command}\n" if command.startswith("ask()") else ""
        printed = result.stdout + ("\n" if result.stdout else "")
        assert doctest.OutputChecker().check_output(expected, printed, FLAGS), (command, printed)


def test_its_calls_with_the_client_print_what_it_says(server: Server):
    session = doctest.DocTestParser().get_doctest(blocks("pycon"), {}, "docs/api.md", None, 0)
    said: list[str] = []
    flags = FLAGS | doctest.IGNORE_EXCEPTION_DETAIL
    result = doctest.DocTestRunner(optionflags=flags).run(session, out=said.append)
    assert (result.failed, result.attempted > 10) == (0, True), "".join(said)


def test_every_code_stands_with_its_status_and_its_exception():
    for code, (status, _) in TITLES.items():
        if code in OF_NO_CALL:
            continue
        [row] = [line for line in PAGE.splitlines() if line.startswith("|") and f"`{code}`" in line]
        _, statuses, _, raised, _ = row.split("|")
        assert str(int(status)) in statuses
        assert f"`{errors.refusal(status).__name__}`" in raised


def test_every_scope_and_every_call_is_named():
    for scope in SCOPES:
        assert f"| `{scope}` |" in PAGE
    calls = [
        name
        for part in (mnemolog.Client, mnemolog.client.Memories)
        for name in vars(part)
        if not name.startswith("_") and name != "close"
    ]
    assert not [name for name in calls if f"`{name}`" not in PAGE and f"client.{name}" not in PAGE]
