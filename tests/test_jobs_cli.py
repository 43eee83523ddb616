"""`mnemolog jobs`: enabled jobs, latest proposals, costs, and running jobs from there."""

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner

from pipelines.jobs import JOBS
from pipelines.orchestration.job_assets import build_job_assets, key_of
from serve.cli import main, schedule
from store.home import failures
from store.home.config import Settings
from store.home.instants import new_id
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Called, Made, Planned
from store.log.events import Event
from store.maintenance.checkup import checkup
from store.plans import job_catalog, plans, steps

NOW = 1_790_000_000_000_000


def run_json(*words: str) -> dict[str, object]:
    result = CliRunner().invoke(main, ["jobs", *words, "--json"])
    assert result.exit_code == 0, result.output
    payload: dict[str, object] = json.loads(result.stdout)
    return payload


def job(payload: dict[str, object], name: str) -> dict[str, object]:
    return next(job for job in payload["jobs"] if job["job"] == name)


@pytest.fixture
def proposed(built) -> plans.Plan:
    """A pending plan of distill with the cost of its model."""
    draft = Draft(id="made", content="Made of m00", source_ids=("m00",))
    step = steps.record(draft, Made(job="distill"), NOW, "it was said")
    body = Planned(job="distill", watermark=built.log.head(), steps=(step,), cost_usd=0.25)
    return plans.propose(built.log, body, NOW)


@pytest.mark.parametrize("name", JOBS)
def test_a_command_applies_a_plan_where_dagster_and_the_documentation_do(built, name, monkeypatch):
    started: list[tuple[str, ...]] = []

    def start(settings: Settings, *words: str, stdout: int) -> SimpleNamespace:
        started.append(words)
        answer = b'{"plan": null, "cold": {"memories": {}, "path": ""}}'
        return SimpleNamespace(communicate=lambda: (answer, None), returncode=0)

    monkeypatch.setattr("serve.server.processes.start_job", start)
    command = ("routes", "learn") if name == "route" else (name,)
    assert CliRunner().invoke(main, command).exit_code == 0
    assert ("--apply" in started[0]) is not JOBS[name].is_careful
    guide = (Path(__file__).parents[1] / "docs/learning.md").read_text()
    *_, row = (line for line in guide.splitlines() if line.startswith(f"| `{name}` |"))
    assert row.endswith("| yes |" if JOBS[name].is_careful else "| no |")
    (asset,) = (other for other in build_job_assets() if other.key == key_of(name))
    waits = "waits for a person" if JOBS[name].is_careful else "is carried out"
    assert f"Its plan {waits}" in asset.descriptions_by_key[asset.key]


def test_all_jobs_are_listed_and_off(built):
    jobs = run_json()
    assert [job["job"] for job in jobs["jobs"]] == list(job_catalog.NAMES)
    assert not any(job["on"] or job["last"] or job["waiting"] for job in jobs["jobs"])
    assert job(jobs, "facts")["at"] == "00:35"
    assert (jobs["problem"], jobs["model"]) == ("", None)
    text = CliRunner().invoke(main, ["jobs"]).stdout
    assert "no model is set" in text


def test_switches_are_kept_per_tenant(built):
    assert run_json("on", "reflect", "facts") == {"on": ["facts", "reflect"]}
    assert [job["job"] for job in run_json()["jobs"] if job["on"]] == ["facts", "reflect"]
    assert run_json("off", "facts") == {"on": ["reflect"]}
    CliRunner().invoke(main, ["--tenant", "work", "init"])
    other = CliRunner().invoke(main, ["--tenant", "work", "jobs", "--json"])
    assert not any(job["on"] for job in json.loads(other.stdout)["jobs"])


def test_an_unknown_job_is_refused(built):
    result = CliRunner().invoke(main, ["jobs", "on", "nothing"])
    assert result.exit_code == 2
    assert "unknown job 'nothing': choose from facts" in result.output


def test_the_last_plan_and_those_that_wait_are_shown(built, proposed):
    listed = job(run_json(), "distill")
    assert listed["waiting"] == [proposed.id]
    assert listed["last"]["plan"] == proposed.id
    assert (listed["last"]["state"], listed["last"]["steps"]) == ("waiting", 1)
    assert listed["last"]["cost_usd"] == 0.25
    assert f"1 waiting  $0.2500  {proposed.id[:6]}" in CliRunner().invoke(main, ["jobs"]).stdout


def test_what_models_cost_today_is_summed_over_the_home(built, monkeypatch):
    monkeypatch.setattr("serve.cli.environment.now", lambda: NOW + 5)
    CliRunner().invoke(main, ["--tenant", "work", "init"])
    for at, cost, error in (
        (NOW, 0.5, None),
        (NOW + 1, 0.0, "429"),
        (NOW - 86_400_000_000, 9, None),
    ):
        called = Called(
            purpose="facts",
            model="m",
            tier="cheap",
            prompt_sha256="0",
            prompt_tokens=10,
            answer_tokens=5,
            cost_usd=cost,
            error=error,
        )
        id_ = new_id(at)
        built.log.append([Event(id_, at, called, id_)])
    result = CliRunner().invoke(main, ["--tenant", "work", "jobs", "--json"])
    today = json.loads(result.stdout)["today"]
    assert today == {"calls": 2, "failed": 1, "tokens": 30, "cost_usd": 0.5}
    text = CliRunner().invoke(main, ["jobs"]).stdout
    assert "today: $0.5000 of $2.00, 30 of 1,000,000 tokens, 2 of 1,000 calls, 1 failed" in text


def test_doctor_says_that_switches_cannot_be_read(built, home):
    (built.tenant.root / "jobs.json").write_text("{")
    (finding,) = [finding for finding in checkup(Settings(home)) if "no job runs" in finding.what]
    assert finding.severity == "warn"
    assert "jobs.json cannot be read" in finding.what
    result = CliRunner().invoke(main, ["jobs"])
    assert result.exit_code == 0
    assert "cannot be read" in result.output
    assert run_json("on", "facts") == {"on": ["facts"]}
    assert not [finding for finding in checkup(Settings(home)) if "no job runs" in finding.what]


def test_doctor_and_status_report_background_failures(built, home):
    failures.keep(built.tenant.root, "learning.facts", NOW, "EmbedderError: no answer", "run-1")
    (finding,) = [
        finding for finding in checkup(Settings(home)) if "learning.facts" in finding.what
    ]
    assert finding.what.startswith("learning.facts failed at 2026-09-21T")
    assert finding.what.endswith("EmbedderError: no answer")
    assert "run-1" in finding.cure
    assert "failed    learning.facts: EmbedderError" in CliRunner().invoke(main, ["status"]).stdout


def test_a_job_is_run_from_the_command_line(built, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["jobs", "run", "learn", "--json"])
    assert result.exit_code == 0, result.output
    jobs = msgspec.json.decode(result.stdout)["jobs"]
    assert {run["outcome"] for run in jobs} == {"done"}
    order = [run["job"] for run in jobs]
    assert order == [name for name in job_catalog.ORDER if name in order] and order
    assert not list(failures.every(built.tenant.root))


def test_a_job_that_cannot_be_run_is_no_traceback(built, capfd):
    result = CliRunner().invoke(main, ["jobs", "run", "nothing"])
    assert result.exit_code == 1
    stderr = capfd.readouterr().err
    assert "unknown job" in stderr and "Traceback" not in stderr


def test_what_ran_is_told_in_a_line_each(capsys):
    schedule._print_runs(
        [
            {"job": "facts", "outcome": "failed", "plan": None, "state": "", "steps": 0}
            | {"warnings": ["no answer\x1b[2J"]},
            {"job": "consolidate", "outcome": "done", "plan": "7HQ2ABCDEF", "state": "waiting"}
            | {"steps": 3, "warnings": []},
        ]
    )
    output = capsys.readouterr()
    assert output.out.splitlines() == [
        "facts       failed",
        "            no answer[2J",
        "consolidate waiting, 3 steps  plan 7HQ2AB",
    ]
    assert "mnemolog plans apply" in output.err


def test_jobs_are_not_switched_on_where_nothing_could_run_them(built, monkeypatch):
    monkeypatch.setattr("store.home.packages.is_installed", lambda module: module != "dagster")
    result = CliRunner().invoke(main, ["jobs", "on", "learn"])
    assert result.exit_code != 0
    assert "dagster is not installed" in result.output
    assert not job_catalog.load_switches(built.tenant).on
    assert CliRunner().invoke(main, ["jobs", "off", "learn"]).exit_code == 0


@pytest.mark.parametrize(
    ("waiting", "model", "is_said"), [(5, "", True), (4, "", False), (5, "m", False)]
)
def test_lessons_say_how_a_model_sorts_many_statements(built, monkeypatch, waiting, model, is_said):
    if model:
        monkeypatch.setenv("MNEMOLOG_HOME", str(built.tenant.root.parents[1]))
        (built.tenant.root.parents[1] / "config.toml").write_text(f'[llm]\ncheap = "{model}"\n')
    for number in range(waiting):
        text = f"never deploy service {number} on a Friday"
        draft = Draft(content=text, kind="statement", id=f"waits{number}")
        commands.record(built.log, draft, NOW)
    result = CliRunner().invoke(main, ["lessons"])
    assert result.exit_code == 0, result.output
    assert ("a model sorts them" in result.output) is is_said
