"""Dagster's runs elsewhere, by the files in `deploy`: on a Ray cluster, and as Kubernetes jobs."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import dagster as dg
import pytest
import yaml
from dagster._core.code_pointer import FileCodePointer
from dagster._core.launcher import LaunchRunContext
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from test_docs import ROOT
from test_pipelines import NOW, remember

from pipelines.orchestration import dagster_home
from pipelines.orchestration.run_resources import PARTITION
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Settings
from store.log.event_log import EventLog
from store.maintenance import build
from store.snapshots import manifest as manifests

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
VALIDATE = ROOT / ".kubernetes" / "bin" / "kubernetes-validate"
NAMES = ["one", "two", "three", "four"]
WAIT_S = 300.0
T = TypeVar("T")


def until(what: Callable[[], T | None]) -> T:
    """Return the first value that is not empty."""
    deadline = time.monotonic() + WAIT_S
    while not (value := what()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.2)
    return value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*command: str, log: Path, **environment: str) -> Iterator[None]:
    """Run a program in a process group of its own, which ends with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            pass
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[str]:
    """The address of a Ray cluster of one node, with two processors."""
    dashboard = free_port()
    address = f"http://127.0.0.1:{dashboard}"
    with running(
        str(BIN / "ray"),
        *("start", "--head", "--block", "--disable-usage-stats", "--num-cpus", "2"),
        *("--port", str(free_port()), "--dashboard-host", "127.0.0.1"),
        *("--dashboard-port", str(dashboard), "--ray-client-server-port", str(free_port())),
        *("--node-ip-address", "127.0.0.1", "--object-store-memory", "100000000"),
        log=tmp_path / "ray.log",
        PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}",
    ):
        until(lambda: jobs(address) is not None)
        yield address


def jobs(address: str) -> list[dict[str, Any]] | None:
    """Return the cluster's jobs that were submitted; None if it does not answer."""
    try:
        with urllib.request.urlopen(f"{address}/api/jobs/", timeout=5) as answer:
            return [job for job in json.load(answer) if job["type"] == "SUBMISSION"]
    except (OSError, ValueError):
        return None


def test_four_tenants_are_four_ray_jobs_and_a_killed_one_is_run_again(ray, tmp_path):
    settings = Settings(tmp_path / "home")
    tenants = [remember(settings, name, f"what {name} knows", "and more") for name in NAMES]
    yaml_file = dagster_home.prepare_home(settings) / "dagster.yaml"
    shipped = (DEPLOY / "dagster-ray.yaml").read_text().replace("http://127.0.0.1:8265", ray)
    yaml_file.write_text(yaml_file.read_text() + shipped)
    pages = [sys.executable, "-P", "-m", "pipelines", "pages", "--port", str(free_port())]
    with (
        running(*pages, log=tmp_path / "ui.log", **dagster_home.environment(settings)),
        dagster_home.instance(settings) as instance,
    ):
        killed = until(lambda: first_started(instance))
        process = until(lambda: process_of(killed.run_id))
        os.kill(process, signal.SIGKILL)
        finished = until(lambda: all_built(instance))
        of_killed = instance.get_run_by_id(killed.run_id)
    assert of_killed is not None and of_killed.status is dg.DagsterRunStatus.FAILURE
    again = next(run for run in finished if run.tags[PARTITION] == killed.tags[PARTITION])
    assert again.parent_run_id == killed.run_id
    submitted = {job["submission_id"]: job["status"] for job in jobs(ray) or []}
    assert len(submitted) == 5
    assert submitted[f"dagster-run-{killed.run_id}"] == "FAILED"
    assert {submitted[f"dagster-run-{run.run_id}"] for run in finished} == {"SUCCEEDED"}
    for owner in tenants:
        published = manifests.current(owner)
        with EventLog(owner.log) as log:
            anew = build.rebuild(owner, log, LexicalEmbedder(), NOW, full=True)
        assert published.digests == anew.digests


def first_started(instance: dg.DagsterInstance) -> dg.DagsterRun | None:
    started = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
    return next(iter(instance.get_runs(started)), None)


def process_of(run_id: str) -> int | None:
    """Return the process of a run, and not the shell that Ray started it in."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"execute_run" in arguments and any(run_id.encode() in part for part in arguments):
            return int(folder.name)
    return None


def all_built(instance: dg.DagsterInstance) -> list[dg.DagsterRun] | None:
    """Return a successful run of each tenant, once there are."""
    good = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS]))
    by_tenant = {run.tags[PARTITION]: run for run in good if PARTITION in run.tags}
    return [*by_tenant.values()] if by_tenant.keys() == {*NAMES} else None


class Kubernetes(ThreadingHTTPServer):
    """A server that takes jobs as Kubernetes' API does, and runs none."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Api)
        self.jobs: list[dict[str, Any]] = []


class _Api(BaseHTTPRequestHandler):
    server: Kubernetes

    def do_POST(self) -> None:
        assert self.path == "/apis/batch/v1/namespaces/default/jobs"
        job = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.jobs.append(job)
        data = json.dumps(job).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def kubernetes() -> Iterator[Kubernetes]:
    with Kubernetes() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_run_is_a_kubernetes_job_that_fits_its_schema(kubernetes, tmp_path):
    port = kubernetes.server_address[1]
    access = tmp_path / "kubeconfig.yaml"
    access.write_text(KUBECONFIG.format(port=port))
    settings = Settings(tmp_path / "home")
    remember(settings, "one", "what one knows")
    yaml_file = dagster_home.prepare_home(settings) / "dagster.yaml"
    shipped = (DEPLOY / "dagster-kubernetes.yaml").read_text()
    inside, outside = "load_incluster_config: true", f"kubeconfig_file: {access}"
    assert inside in shipped
    yaml_file.write_text(
        yaml_file.read_text()
        + shipped.replace(inside, f"load_incluster_config: false\n    {outside}")
    )
    definitions = FileCodePointer(str(ROOT / "pipelines" / "definitions.py"), "defs")
    run = dg.DagsterRun(
        "build_memory",
        job_code_origin=JobPythonOrigin(
            "build_memory", RepositoryPythonOrigin("python", definitions)
        ),
        tags={PARTITION: "one"},
    )
    with dagster_home.instance(settings) as instance:
        instance.add_run(run)
        instance.run_launcher.launch_run(LaunchRunContext(run, None))
    (job,) = kubernetes.jobs
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    server = yaml.safe_load_all((DEPLOY / "kubernetes" / "mnemolog.yaml").read_text())
    stateful = next(each for each in server if each["kind"] == "StatefulSet")
    (beside, *_) = stateful["spec"]["template"]["spec"]["containers"]
    assert container["image"] == beside["image"]
    assert container["args"][:4] == ["python", "-m", "dagster", "api"]
    assert {each["name"]: each.get("value") for each in container["env"]} == {
        "DAGSTER_HOME": "/memory/home/dagster",
        "DAGSTER_RUN_JOB_NAME": "build_memory",
        "MNEMOLOG_HOME": "/memory/home",
    }
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounts["memory"] == "/memory"
    claims = {each["name"]: each.get("persistentVolumeClaim") for each in pod["volumes"]}
    assert claims["memory"] == {"claimName": f"memory-{stateful['metadata']['name']}-0"}
    (near,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert near["labelSelector"]["matchLabels"] == stateful["spec"]["selector"]["matchLabels"]
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job))
    checked = subprocess.run(
        [VALIDATE, "--strict", file], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: here, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
contexts: [{{name: here, context: {{cluster: here, user: nobody}}}}]
users: [{{name: nobody, user: {{}}}}]
"""
