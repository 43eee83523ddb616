"""`mnemolog ingest`: files queued, jobs listed, dead ones tried again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import NOW

from serve.cli import ingest as command
from serve.cli import main
from store.home.errors import LogFull
from store.home.instants import new_id
from store.home.tenant import Tenant
from store.ingest import batch, job_queue
from store.ingest.job_queue import Queue
from store.log.commands import Draft
from store.log.event_log import EventLog


def run(*words: str, given: str = "") -> Result:
    return CliRunner().invoke(main, ["ingest", *words], input=given)


def doctor() -> Result:
    return CliRunner().invoke(main, ["doctor"])


def run_json(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., str]:
    def write(*drafts: dict[str, object]) -> str:
        path = tmp_path / "memories.jsonl"
        path.write_text("".join(json.dumps(draft) + "\n" for draft in drafts))
        return str(path)

    return write


def notes(count: int) -> list[dict[str, object]]:
    return [{"content": f"the tide of pier {number} comes at noon"} for number in range(count)]


def events(tenant: Tenant) -> int:
    with EventLog(tenant.log) as log:
        return log.head()


def test_a_file_is_recorded_in_jobs_and_junk_is_named(
    lines: Callable[..., str], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(command, "A_JOB", 2)
    result = run(lines(*notes(4), {"content": "todo"}))
    assert result.exit_code == 0
    assert result.stdout == "4 recorded, 1 refused\n"
    assert "'todo' is a placeholder" in result.stderr
    assert [job["items"] for job in run_json("list")["jobs"]] == [1, 2, 2]
    assert events(tenant) == 4


def test_the_same_file_again_adds_nothing(lines: Callable[..., str], tenant: Tenant):
    path = lines(*notes(3))
    assert run_json(path)["recorded"] == run_json(path, "--project", "acme/web")["recorded"] == 3
    assert run_json(path)["recorded"] == 3
    assert events(tenant) == 6


def test_a_line_that_is_no_memory_is_an_error_with_its_number(lines: Callable[..., str]):
    result = run(lines(*notes(1), {"note": "no content"}))
    assert (result.exit_code, "line 2" in result.stderr) == (2, True)


def test_a_full_queue_is_drained_before_more_is_accepted(
    lines: Callable[..., str], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(command, "A_JOB", 1)
    monkeypatch.setattr(job_queue, "MOST_JOBS", 2)
    assert run_json(lines(*notes(5)))["recorded"] == 5
    assert events(tenant) == 5


def test_a_batch_the_log_cannot_take_waits_and_is_reported(
    lines: Callable[..., str], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    def full(*arguments: object) -> None:
        raise LogFull("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(EventLog, "append", full)
        assert run(lines(*notes(1))).exit_code == 4
    (job,) = run_json("list")["jobs"]
    assert (job["state"], job["error"]) == ("queued", "LogFull: no space left")
    assert (run_json("list", "--state", "dead")["jobs"], events(tenant)) == ([], 0)


def test_a_dead_job_is_shown_and_recorded_when_it_is_requeued(log: EventLog, tenant: Tenant):
    queue, id_ = Queue(tenant.ingest), new_id(NOW)
    queue.accept(id_, NOW, batch.make_batch(id_, NOW, [Draft(content="the tide comes at noon")]))
    now = NOW
    while (lease := queue.lease("me", now)) is not None:
        queue.fail(lease, "LogBusy: held", now, 0.0)
        now += 1_000_000_000
    queue.close()
    assert "1 accepted batches could not be recorded" in doctor().stdout
    result = run("show", id_)
    assert "dead 0/1" in result.stdout and "LogBusy: held" in result.stdout
    assert id_ in run().stdout
    assert run_json("requeue", id_)["recorded"] == 1
    assert run_json("show", id_)["state"] == "done"
    assert "accepted batches" not in doctor().stdout
    assert run("requeue", id_).exit_code == 2
    assert run("show", "nobody").exit_code == 3
    assert log.head() == 1


def test_an_export_with_more_fields_than_drafts_is_refused(
    lines: Callable[..., str], tenant: Tenant
):
    linked = {"content": "the cache fills", "links": [{"target": new_id(NOW), "relation": "cause"}]}
    result = run("add", lines(*notes(1), linked))
    assert result.exit_code == 2
    assert "memory 2" in result.stderr and "mnemolog import jsonl" in result.stderr
