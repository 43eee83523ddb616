"""The three distributions built from this tree: the program, its core, and the client of that."""

import configparser
import plistlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pytest
import yaml
from wheels import CLIENT, CORE, ROOT, build

CODE = ("store", "serve", "pipelines")


class Wheels(NamedTuple):
    """The wheels of the program, of its core and of the client."""

    program: ZipFile
    core: ZipFile
    client: ZipFile


def project(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """The wheels built as a release builds them."""
    folder = tmp_path_factory.mktemp("dist")
    return Wheels(
        build(ROOT, folder / "program"),
        build(CORE, folder / "core"),
        build(CLIENT, folder / "client"),
    )


def metadata(wheel: ZipFile) -> str:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return wheel.read(name).decode()


def packaged(wheel: ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def test_each_needs_the_next_of_its_own_version():
    program, core, client = map(project, (ROOT, CORE, CLIENT))
    assert program["version"] == core["version"] == client["version"]
    assert f"mnemolog-core[sync]=={core['version']}" in program["dependencies"]
    assert f"mnemolog-client=={client['version']}" in core["dependencies"]
    for folder in (CORE, CLIENT):
        assert (ROOT / "LICENSE").read_bytes() == (folder / "LICENSE").read_bytes()


def test_the_program_and_its_core_give_the_same_commands_and_extras():
    program, core = project(ROOT), project(CORE)
    assert program["scripts"] == core["scripts"]
    assert program["classifiers"] == core["classifiers"]
    passed_on = {
        name
        for name, needed in program["optional-dependencies"].items()
        if needed == [f"mnemolog-core[{name}]=={core['version']}"]
    }
    assert passed_on == core["optional-dependencies"].keys() - {"sync"}


def test_no_file_is_in_two_wheels(wheels: Wheels):
    core, client = packaged(wheels.core), packaged(wheels.client)
    assert packaged(wheels.program) == set()
    assert {name.partition("/")[0] for name in core} == set(CODE)
    assert {name.partition("/")[0] for name in client} == {"mnemolog"}


def test_the_wheels_hold_every_file_of_the_tree(wheels: Wheels):
    listed = subprocess.check_output(["git", "ls-files", *CODE], cwd=ROOT, text=True).split()
    tree = {name for name in listed if not name.startswith(("serve/core/", "serve/program/"))}
    ours = {name for name in listed if name.startswith("serve/program/mnemolog/")}
    assert tree == packaged(wheels.core)
    assert {name.removeprefix("serve/program/") for name in ours} == packaged(wheels.client)


def test_the_client_runs_with_msgspec_alone(wheels: Wheels, tmp_path: Path):
    wheels.client.extractall(tmp_path / "client")
    assert re.findall(r"^Requires-Dist: (\w+)", metadata(wheels.client), re.MULTILINE) == [
        "msgspec"
    ]
    report = f"""
import pathlib, sys
sys.path[:0] = [{str(tmp_path / "client")!r}]
import msgspec
known = set(sys.modules)
import mnemolog
print(*{{name.partition(".")[0] for name in set(sys.modules) - known}} - sys.stdlib_module_names)
try:
    mnemolog.Client(home=pathlib.Path({str(tmp_path)!r}))
except mnemolog.NoServer as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-P", "-c", report],
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
        cwd=tmp_path,
        env={"PATH": ""},
    )
    loaded, error = result.stdout.splitlines()
    assert loaded == "mnemolog"
    assert "mnemolog start" in error


def test_a_package_page_has_no_link_that_leads_nowhere(wheels: Wheels):
    for wheel in wheels:
        description = metadata(wheel).partition("\n\n")[2]
        assert "Description-Content-Type: text/markdown" in metadata(wheel)
        assert description.startswith("# mnemolog")
        assert not re.findall(r"\]\((?!https://)[^)]*\)", description)


def test_the_image_copies_what_is_there_and_what_it_may_see():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copies = [line for line in lines if line.startswith("COPY ") and "--" not in line]
    copied = {name for line in copies for name in line.split()[1:-1]}
    seen = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert copied == {name.removeprefix("!") for name in seen if name.startswith("!")}
    assert not [name for name in copied if not (ROOT / name).exists()]


def test_the_compose_file_publishes_no_port():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert [name for name, one in services.items() if {"ports", "expose"} & one.keys()] == []
    assert {service["network_mode"] for service in services.values()} == {"host"}


def test_the_services_in_the_docs_run_a_command_that_is_installed():
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    [unit], [plist] = (
        re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("ini", "xml")
    )
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(unit)
    words = plistlib.loads(plist.encode())["ProgramArguments"]
    for command in (parsed["Service"]["ExecStart"].split(), words):
        assert Path(command[0]).name in project(ROOT)["scripts"]
        assert command[1:] == ["serve"]
