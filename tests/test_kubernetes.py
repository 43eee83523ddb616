"""The Kubernetes files in `deploy` fit the server, nginx's file and Kubernetes' schemas."""

import re
import subprocess
import sys
from typing import Any

import pytest
import yaml
from test_distribution import project
from test_docs import ROOT
from test_server import Server, Start, start

from store.home.config import Choices

__all__ = ["start"]  # the fixture of test_server

DEPLOY = ROOT / "deploy"
MANIFEST = DEPLOY / "kubernetes" / "mnemolog.yaml"
VALIDATE = ROOT / ".kubernetes" / "bin" / "kubernetes-validate"
NGINX = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
PROBES = {"startupProbe": "/ready", "readinessProbe": "/ready", "livenessProbe": "/health"}


def resources() -> dict[str, Any]:
    """Return each resource of the manifest, by its kind."""
    every = list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))
    assert len({resource["kind"] for resource in every}) == len(every)
    return {resource["kind"]: resource for resource in every}


@pytest.fixture
def pod() -> Any:
    return resources()["StatefulSet"]["spec"]["template"]["spec"]


def container(pod: Any, name: str) -> Any:
    return next(container for container in pod["containers"] if container["name"] == name)


@pytest.mark.skipif(not VALIDATE.exists(), reason="`make kubernetes` installs the schemas")
def test_it_fits_the_schemas_of_kubernetes():
    completed = subprocess.run(
        [VALIDATE, "--strict", MANIFEST], capture_output=True, text=True, timeout=120
    )
    output = completed.stdout + completed.stderr
    assert completed.returncode == 0 and output.count("passed for resource") == len(resources()), (
        output
    )


def test_the_kustomization_names_what_is_there():
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text(encoding="utf-8"))
    assert [DEPLOY / name for name in listed["resources"]] == [*(DEPLOY / "kubernetes").iterdir()]
    [generated] = listed["configMapGenerator"]
    (name, _, source) = generated["files"][0].partition("=")
    assert name.endswith(".conf") and (DEPLOY / source).read_text(encoding="utf-8") == NGINX


def test_a_home_has_one_writer_on_a_volume_of_its_own(pod: Any):
    spec = resources()["StatefulSet"]["spec"]
    assert spec["replicas"] == 1
    [claim] = spec["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    server = container(pod, "mnemolog")
    mounts = {mount["name"]: mount["mountPath"] for mount in server["volumeMounts"]}
    [home] = [
        variable["value"] for variable in server["env"] if variable["name"] == "MNEMOLOG_HOME"
    ]
    # below the volume, because the group may read the volume's own folder
    assert home.startswith(f"{mounts[claim['metadata']['name']]}/")
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def test_it_starts_a_command_that_is_installed_with_settings_that_exist(pod: Any):
    server = container(pod, "mnemolog")
    assert server["args"][0] in project(ROOT)["scripts"] and server["args"][1:] == ["serve"]
    assert server["image"] == f"mnemolog:{project(ROOT)['version']}"
    names = {"MNEMOLOG_HOME", *(f"MNEMOLOG_{name.upper()}" for name in Choices.__struct_fields__)}
    assert {variable["name"] for variable in server["env"]} <= names


def test_nothing_runs_as_root_or_writes_beside_its_volumes(pod: Any):
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 1000
    assert "--uid 1000" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for container in pod["containers"]:
        locked = container["securityContext"]
        assert locked["readOnlyRootFilesystem"] and not locked["allowPrivilegeEscalation"]
        assert locked["capabilities"] == {"drop": ["ALL"]}


def test_only_nginx_is_reached_and_finds_its_files(pod: Any):
    front, service = container(pod, "nginx"), resources()["Service"]["spec"]
    assert "ports" not in container(pod, "mnemolog")
    [port] = front["ports"]
    assert f"listen {port['containerPort']} ssl" in NGINX
    assert [other["targetPort"] for other in service["ports"]] == [port["name"]]
    labels = resources()["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    mounts = {mount["name"]: mount["mountPath"] for mount in front["volumeMounts"]}
    assert {
        path.rpartition("/")[0] for path in re.findall(r"/etc/nginx/\S+\.(?:crt|key)", NGINX)
    } == {mounts["certificates"]}
    volumes = {volume["name"] for volume in pod["volumes"]} | {"memory"}
    assert {
        m["name"] for container in pod["containers"] for m in container["volumeMounts"]
    } == volumes


def test_its_probes_ask_what_the_server_answers(pod: Any, start: Start):
    server = container(pod, "mnemolog")
    running = start(build_after="0").ready()
    for name, path in PROBES.items():
        program, *words = server[name]["exec"]["command"]
        assert program == "python"  # the image's
        assert words[-1].count(f"http://127.0.0.1:{Choices().port}{path}") == 1
        assert probe(words, running) == 0
    running.end()
    assert probe(words, running) != 0


def probe(words: list[str], server: Server) -> int:
    """Run a probe against a server; return its exit code."""
    command = [word.replace(f":{Choices().port}/", f":{server.port}/") for word in words]
    completed = subprocess.run([sys.executable, *command], capture_output=True, timeout=60)
    return completed.returncode
