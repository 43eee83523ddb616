"""`mnemolog-core` by itself: its wheel and what that requires, and none of the jobs' libraries."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from as_person import AS_PERSON
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from wheels import CLIENT, CORE, ROOT, build

LARGEST = 300e6  # bytes


def requirements(name: str) -> Iterator[str]:
    """Yield the distributions that one requires without its extras."""
    for line in distribution(name).requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            yield canonicalize_name(wanted.name)


def required(name: str) -> dict[str, Distribution]:
    """Return the distributions that one requires, and those that they require."""
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        for other in requirements(waiting.pop()):
            if other not in found:
                found[other] = distribution(other)
                waiting.append(other)
    return found


class Core:
    """The program in an environment of its own, with an empty home."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        venv.create(folder / "env", symlinks=True)
        [site] = (folder / "env").glob("lib/python*/site-packages")
        build(CORE, folder / "core").extractall(site)
        build(CLIENT, folder / "client").extractall(site)
        for name, dist in required("mnemolog-core").items():
            if name == "mnemolog-client":
                continue
            for top in {file.parts[0] for file in dist.files or () if file.parts[0] != ".."}:
                (site / top).symlink_to(str(dist.locate_file(top)))
        self.python = folder / "env" / "bin" / "python"
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environ = kept | {
            "MNEMOLOG_HOME": str(self.home),
            "HOME": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, *words: str, as_person: bool = False) -> "subprocess.CompletedProcess[str]":
        program = [AS_PERSON[-1]] if as_person else ["-m", "serve.cli"]
        return subprocess.run(
            [self.python, "-P", *program, *words],
            env=self.environ,
            cwd=self.home.parent,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def succeed(self, *words: str) -> "subprocess.CompletedProcess[str]":
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    core = Core(tmp_path_factory.mktemp("core"))
    core.succeed("record", "Deploys go out from eu-west-1 only", "--kind", "decision")
    core.succeed("record", "The queue is in Redis, not in Postgres")
    return core


def test_it_takes_less_than_300_mb():
    files = [file for dist in required("mnemolog-core").values() for file in dist.files or ()]
    sizes = [path.stat().st_size for file in files if (path := Path(str(file.locate()))).is_file()]
    assert sum(sizes) < LARGEST


def test_it_builds_recalls_and_verifies(core: Core):
    built = core.succeed("build")
    assert "Dagster is not installed: building without it" in built.stderr
    assert "eu-west-1" in core.succeed("recall", "where do deploys go out from").stdout
    assert "matches the log" in core.succeed("verify").stdout


def test_its_snapshots_and_answers_are_those_of_the_whole(core: Core, tmp_path: Path):
    shutil.copytree(core.home, tmp_path / "home")
    whole = core.environ | {"MNEMOLOG_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    question = ("recall", "--json", "where do deploys go out from")
    told = []
    for python, environ in ((core.python, core.environ), (sys.executable, whole)):
        answers = []
        for words in (("build", "--quick", "--full", "--json"), question):
            done = subprocess.run(
                [python, "-P", "-m", "serve.cli", *words],
                env=environ,
                cwd=core.home.parent,
                capture_output=True,
                check=True,
                timeout=120,
            )
            answers.append(json.loads(done.stdout))
        built, recalled = answers
        digests = {name: made["digest"] for name, made in built["projections"].items()}
        told.append((digests, [(hit["id"], hit["score"]) for hit in recalled["hits"]]))
    assert told[0] == told[1]
    assert len(told[0][0]) > 5 and told[0][1]


@pytest.mark.parametrize("job", ["consolidate", "distill", "facts", "reflect", "archive"])
def test_it_runs_the_jobs_that_need_no_model(core: Core, job: str):
    core.succeed(job, "--dry-run")


def test_it_serves_recall_hooks_and_pages(core: Core):
    server = json.loads(core.succeed("start", "--json").stdout)
    try:
        link = json.loads(core.succeed("dashboard", "--no-open", "--json").stdout)["url"]
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        address, _, key = link.partition("?")
        log_in = urllib.request.Request(address, key.encode(), {"Origin": server["url"]})
        browser.open(log_in, timeout=60).close()
        with browser.open(f"{server['url']}/t/default/memories", timeout=60) as page:
            assert "Deploys go out" in page.read().decode()
        prompt = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "core",
            "transcript_path": str(core.home / "none.jsonl"),
            "cwd": str(core.home),
            "prompt": "where do deploys go out from, which region?",
        }
        token = (core.home / "token").read_text().strip()
        request = urllib.request.Request(
            f"{server['url']}/v1/hooks/claude-code",
            json.dumps(prompt).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert "eu-west-1" in answer.read().decode()
    finally:
        core.succeed("stop")


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["ui"], "dagster"),
        (["replicate", "--once", "s3://bucket/folder"], "boto3"),
        (["sync", "init", "PLACE"], "cryptography"),
        (["embedder", "test", "litellm:openai/text-embedding-3-small"], "litellm"),
    ],
)
def test_it_names_what_it_leaves_out(core: Core, words: list[str], module: str):
    words = [str(core.home.parent / "place") if word == "PLACE" else word for word in words]
    done = core.run(*words, as_person=True)
    assert done.returncode != 0
    assert f"{module} is not installed: mnemolog-core comes without it" in done.stderr
    assert "pip install mnemolog" in done.stderr and "Traceback" not in done.stderr
