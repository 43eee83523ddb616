"""Every problem of a home is found and named with its fix."""

import os
import socket
import time
from collections import namedtuple
from pathlib import Path

import msgspec
import pytest
from background import free_port
from command_line import run
from msgspec.structs import replace

from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices, Settings
from store.home.errors import LogCorrupt
from store.home.files import replace_file
from store.home.registry import Server, sole
from store.home.tenant import tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build, erase
from store.maintenance import checkup as checkup_module
from store.maintenance.checkup import Finding, checkup
from store.snapshots import manifest
from store.snapshots.manifest import CheckResult, Refusal

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def settings(tmp_path: Path):
    """A healthy home with one built memory, readable by its owner alone."""
    mask = os.umask(0o077)
    home = tmp_path / "home"
    home.mkdir()
    chosen = tenant(home)
    with EventLog(chosen.log, create=True) as log:
        commands.record(log, Draft(content="Deploys need two approvals"), now())
        build.rebuild(chosen, log, LexicalEmbedder(), now())
    yield Settings(home, Choices(port=free_port()))
    os.umask(mask)


def registry(port: int) -> bytes:
    return msgspec.json.encode(Server(pid=1, port=port, started_at=now(), instance="a"))


def now() -> int:
    return time.time_ns() // 1000


def problems(settings: Settings) -> list[Finding]:
    return [finding for finding in checkup(settings) if finding.severity != "ok"]


def only_problem(settings: Settings) -> Finding:
    (found,) = problems(settings)
    assert found.cure
    return found


def test_a_healthy_home_has_no_problems(settings):
    assert problems(settings) == []
    assert checkup(settings)


def test_a_home_without_a_tenant_names_init(tmp_path):
    found = only_problem(Settings(tmp_path / "nowhere", Choices(port=free_port())))
    assert (found.severity, "mnemolog init" in found.cure) == ("error", True)


def test_a_missing_tenant_is_the_only_problem(settings):
    choices = replace(settings.choices, tenant="bad")
    named = replace(settings, choices=choices)
    found = only_problem(named)
    assert "'bad'" in found.what and "default" in found.cure


@pytest.mark.skipif(os.name != "posix", reason="modes are posix")
@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("", "warn"),
        ("tenants/default/log.sqlite", "error"),
        ("tenants/default/HEAD", "warn"),
        ("token", "error"),
    ],
)
def test_files_readable_by_others_are_found(settings, name, severity):
    path = settings.home / name
    if name == "token":
        path.touch()
    path.chmod(0o755 if path.is_dir() else 0o644)
    found = only_problem(settings)
    assert (found.severity, str(path) in found.what) == (severity, True)


def test_a_damaged_event_is_an_error(settings):
    with EventLog(tenant(settings.home).log) as log:
        log._connections.writer.execute("DROP TRIGGER events_keep_update")
        log._connections.writer.execute("UPDATE events SET body = '{}' WHERE seq = 1")
    found = problems(settings)
    assert found[0].severity == "error"
    assert "event 1" in found[0].what


def test_a_log_without_a_readable_head_is_an_error(settings):
    path = tenant(settings.home).log
    with EventLog(path) as log:
        log.settle()
        [(page,)] = log._connections.fetch(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'events'"
        )
    data = path.read_bytes()
    path.write_bytes(data[: (page - 1) * 4096] + bytes(4096) + data[page * 4096 :])
    with EventLog(path) as log, pytest.raises(LogCorrupt):
        log.head()
    assert problems(settings)[0].severity == "error"
    assert run("doctor").stdout.startswith("error")


def test_a_log_of_another_program_is_an_error(settings):
    tenant(settings.home).log.write_bytes(b"something else entirely " * 100)
    assert only_problem(settings).severity == "error"


def test_a_log_of_a_later_version_is_an_error(settings):
    with EventLog(tenant(settings.home).log) as log:
        log._connections.writer.execute("PRAGMA user_version = 99")
    assert "99" in only_problem(settings).what


def test_every_damaged_snapshot_is_named(settings):
    snapshots = tenant(settings.home).snapshots
    for name in ("memories/ids-*.arrow", "postings/terms-*.arrow"):
        path = next(snapshots.glob(name))
        path.write_bytes(path.read_bytes()[:-1])
    found = problems(settings)
    assert [finding.severity for finding in found] == ["error", "error"]
    assert all("mnemolog build" in finding.cure for finding in found)


def test_a_damaged_head_is_an_error(settings):
    tenant(settings.home).head.write_bytes(b"\x00")
    assert only_problem(settings).severity == "error"


def test_a_memory_never_built_is_a_warning(tmp_path):
    (tmp_path / "home").mkdir(mode=0o700)
    mask = os.umask(0o077)
    EventLog(tenant(tmp_path / "home").log, create=True).close()
    os.umask(mask)
    assert only_problem(Settings(tmp_path / "home", Choices(port=free_port()))).severity == "warn"


def test_a_refused_build_says_why(settings):
    failed = CheckResult("no_secrets", False, "1 secret in m1")
    manifest.refuse(tenant(settings.home), Refusal(now(), 2, (failed,)))
    found = only_problem(settings)
    assert (found.severity, "1 secret in m1" in found.what) == ("error", True)


def test_an_erasing_that_did_not_end_names_what_to_run_again(settings):
    of = tenant(settings.home)
    with EventLog(of.log) as log:
        for id_ in ("e1", "e2"):
            commands.record(log, Draft(id=id_, content=f"the gate of {id_} is wide"), now())
        build.rebuild(of, log, LexicalEmbedder(), now())
        for id_ in ("e1", "e2"):  # killed both times, before any file was searched
            erase.wipe(of, log, erase.EraseRequest((id_,)), now())
        build.rebuild(of, log, LexicalEmbedder(), now())
    found = only_problem(settings)
    assert (found.severity, "`mnemolog erase e1 e2`" in found.cure) == ("error", True)
    erase.drop_start(of, ["e2"])
    assert only_problem(settings) == found
    erase.drop_start(of, ["e2", "e1"])
    assert problems(settings) == []


def test_a_long_tail_is_a_warning(settings):
    with EventLog(tenant(settings.home).log) as log:
        for number in range(5):
            commands.record(log, Draft(content=f"Memory number {number}"), now())
    short = Settings(settings.home, Choices(build_after=1, port=settings.choices.port))
    assert (only_problem(short).severity, problems(settings)) == ("warn", [])


def test_the_registry_of_a_dead_server_is_a_warning(settings):
    replace_file(settings.server_file, registry(free_port()))
    assert "server.json" in only_problem(settings).what


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_server_that_answers_is_no_problem(settings, listening):
    with sole(settings):
        replace_file(settings.server_file, registry(listening))
        assert problems(Settings(settings.home, Choices(port=listening))) == []


def test_a_server_on_another_port_than_the_set_one_is_a_warning(settings, listening):
    with sole(settings):
        replace_file(settings.server_file, registry(listening))
        found = only_problem(settings)
    assert f"port {listening}, the settings say {settings.choices.port}" in found.what
    assert found.severity == "warn"


def test_a_port_that_another_program_has_is_a_warning(settings, listening):
    found = only_problem(Settings(settings.home, Choices(port=listening)))
    assert (found.severity, f"port {listening}" in found.what) == ("warn", True)


def test_a_server_that_lives_and_does_not_answer_is_a_warning(settings):
    with sole(settings):
        replace_file(settings.server_file, registry(free_port()))
        assert "mnemolog stop" in only_problem(settings).cure


def test_another_embedder_than_the_built_one_is_a_warning(settings, monkeypatch):
    class Other(LexicalEmbedder):
        model = "other-1"

    monkeypatch.setattr(checkup_module, "make_embedder", lambda name, home: Other())
    assert "other-1" in only_problem(settings).what


def test_an_unknown_embedder_is_an_error(settings):
    found = only_problem(Settings(settings.home, Choices(embedder="nonsense", port=free_port())))
    assert found.severity == "error"


@pytest.mark.parametrize(("free", "severity"), [(1 << 20, "error"), (500 << 20, "warn")])
def test_a_full_disk_is_found(settings, monkeypatch, free, severity):
    monkeypatch.setattr(checkup_module.shutil, "disk_usage", lambda path: Usage(1, 1, free))
    assert only_problem(settings).severity == severity


def test_an_old_sqlite_is_an_error(settings, monkeypatch):
    monkeypatch.setattr(checkup_module, "sqlite_version", lambda: "3.51.2")
    assert "3.51.2" in only_problem(settings).what


def test_the_worst_comes_first(settings):
    tenant(settings.home).head.chmod(0o644)
    manifest.refuse(tenant(settings.home), Refusal(now(), 2, ()))
    severities = [finding.severity for finding in checkup(settings)]
    assert severities[:2] == ["error", "warn"]
    assert set(severities[2:]) == {"ok"}


def test_a_log_with_a_damaged_page_is_a_finding_and_not_the_end_of_the_doctor(
    settings, monkeypatch
):
    path = tenant(settings.home).log
    with EventLog(path) as log:
        for number in range(200):
            commands.record(log, Draft(content=f"Note {number} of the relay"), now())
        log.settle()
    data = bytearray(path.read_bytes())
    page = data.index(b"Note 150 of") // 4096 * 4096
    data[page : page + 4096] = bytes(4096)
    path.write_bytes(data)
    findings = [finding for finding in problems(settings) if finding.severity == "error"]
    assert findings and all("doctor --repair" in finding.cure for finding in findings)
