"""
The learning jobs, run by Dagster: a plan each, careful ones wait, the shown results are true, and a
killed run blocks nobody.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from types import SimpleNamespace

import dagster as dg
import msgspec
import pytest

from pipelines import jobs
from pipelines.jobs import Context, Proposal
from pipelines.orchestration import dagster_home, definitions, in_process, job_assets, run_resources
from pipelines.orchestration.definitions import dagster_name, make_definitions
from pipelines.orchestration.in_process import learn
from store.home import failures
from store.home.config import Choices, Llm, Settings
from store.home.errors import BuildBusy, InvalidInput, NotFound
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Called, Made
from store.log.event_kinds import Job as Name
from store.log.events import Event
from store.plans import job_catalog, plans, steps

NOW = 1_790_000_000_000_000
TOLD: list[str] = []  # the jobs that ran, in order


def archiving(most: int) -> Callable[[Context], Proposal]:
    """Return a job that archives the first memories, and records a note made from them."""

    def propose(context: Context) -> Proposal:
        TOLD.append("archive")
        removed = context.memories(context.live_rows[:most])
        draft = Draft(
            id="made", content="What was put away | ![x](http://evil)", source_ids=(removed[-1].id,)
        )
        plan_steps = [steps.archive(memory, "nobody asks for it") for memory in removed[:-1]]
        step = steps.record(draft, Made(job="archive"), context.now, "to be found again")
        return Proposal((*plan_steps, step), len(context.live_rows), ("a note",))

    return propose


def breaking(context: Context) -> Proposal:
    TOLD.append("facts")
    raise NotFound("what it looked for")


def idle(context: Context) -> Proposal:
    TOLD.append("judge")
    return Proposal((), len(context.live_rows))


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Replace the list of jobs."""
    monkeypatch.setattr(jobs, "JOBS", {})
    TOLD.clear()

    def add(name: Name, propose: Callable[[Context], Proposal], *, careful: bool = False) -> None:
        monkeypatch.setitem(sys.modules, f"pipelines.jobs.{name}", SimpleNamespace(propose=propose))
        jobs.JOBS[name] = jobs.Job(name, f"{name} for a test.", careful)

    yield add


@pytest.fixture
def settings(built, home) -> Settings:
    return Settings(home)


@contextmanager
def ran(settings: Settings, name: str) -> Iterator[dg.ExecuteInProcessResult]:
    """Yield the result of a run on a temporary instance."""
    loggers = {"console": in_process.logger(lambda event: None)}
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("tenants", ["default"])
        job = make_definitions(settings, loggers=loggers, lock_wait_s=0.1).resolve_job_def(
            dagster_name(name)
        )
        yield job.execute_in_process(
            run_config={"loggers": {"console": {}}},
            instance=instance,
            partition_key="default",
            raise_on_error=False,
        )


def asset_metadata(result: dg.ExecuteInProcessResult, name: str) -> dict[str, object]:
    (materialization,) = result.asset_materializations_for_node(f"learning__{name}")
    return {key: value.value for key, value in materialization.metadata.items()}


def check_results(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {
        evaluation.check_name: evaluation.passed
        for evaluation in result.get_asset_check_evaluations()
    }


def test_the_catalog_has_every_job():
    assert set(job_catalog.ORDER) == set(msgspec.inspect.type_info(Name).values)
    assert set(job_catalog.CRON) == set(job_catalog.NAMES)
    assert jobs.JOBS.keys() == set(job_catalog.ORDER)


def test_a_job_is_an_asset_downstream_of_what_is_served(register, settings):
    register("archive", archiving(3))
    register("consolidate", idle, careful=True)
    register("facts", idle)  # a projection's name too
    defs = make_definitions(settings)
    dg.Definitions.validate_loadable(defs)
    spec = defs.resolve_asset_graph().get(dg.AssetKey(["learning", "archive"]))
    assert spec.parent_keys == {dg.AssetKey("published_manifest")}
    assert spec.partitions_def == dg.DynamicPartitionsDefinition(name="tenants")
    assert (spec.group_name, spec.pools) == ("learning", {"model"})
    assert {key.name for key in spec.check_keys} == set(job_assets.CHECKS)
    names = {job.name for job in defs.resolve_all_job_defs()}
    assert {"learn_archive", "learn_consolidate", "learn", "build_memory"} <= names


def test_what_a_job_does_is_shown_as_it_happened(register, settings, built):
    register("archive", archiving(3))
    with ran(settings, "archive") as result:
        assert result.success
        metadata = asset_metadata(result, "archive")
        assert check_results(result) == dict.fromkeys(job_assets.CHECKS, True)
    assert metadata["steps by kind"] == {"archived": 2, "recorded": 1}
    assert (metadata["state"], metadata["steps"], metadata["calls"]) == ("applied", 3, 0)
    assert plans.find(built.log, metadata["plan"]).state == "applied"
    assert "| archived | `m00` |\n" in metadata["diff"]
    assert "What was put away" not in metadata["diff"]
    before = built.manifest.projections["memories"].rows["memories"]
    table = metadata["active memories"].splitlines()
    rows = dict(row.strip("| ").split(" | ", 1) for row in table if "---" not in row)
    was, now = map(int, rows["all"].split(" | "))
    assert (was < before, now - was) == (True, -1)
    assert "](data:image/svg+xml;base64," in metadata["plot of steps"]
    assert metadata["notes"] == "- `a note`"


def test_a_diff_quotes_texts_where_the_settings_ask_for_it(register, home, built):
    register("archive", archiving(3))
    with ran(Settings(home, Choices(dagster_texts=True)), "archive") as result:
        diff = asset_metadata(result, "archive")["diff"]
    assert "| archived | `m00` |" in diff
    assert "`What was put away ¦ ![x](http://evil)`" in diff


def test_a_careful_job_changes_nothing(register, settings, built):
    register("archive", archiving(3), careful=True)
    with ran(settings, "archive") as result:
        metadata = asset_metadata(result, "archive")
    assert (result.success, metadata["state"]) == (True, "waiting")
    assert [plan.state for plan in plans.every(built.log)] == ["waiting"]


def test_a_plan_that_waits_is_not_proposed_again_every_night(register, settings, built):
    register("archive", archiving(3), careful=True)
    for _ in range(2):
        commands.record(built.log, Draft(content=f"another day, event {built.log.head()}"), NOW)
        with ran(settings, "archive") as result:
            assert asset_metadata(result, "archive")["state"] == "waiting"
    assert [plan.state for plan in plans.every(built.log)] == ["waiting"]
    plans.apply(built.log, plans.every(built.log)[0].id, NOW)
    with ran(settings, "archive") as result:
        assert result.success
    assert [plan.state for plan in plans.every(built.log)] == ["waiting", "applied"]


def test_a_job_with_nothing_to_do_says_so(register, settings, built):
    register("judge", idle)
    head = built.log.head()
    with ran(settings, "judge") as result:
        metadata = asset_metadata(result, "judge")
        assert check_results(result) == dict.fromkeys(job_assets.CHECKS, True)
    assert (metadata["state"], metadata["plan"], metadata["steps"]) == ("nothing to do", "none", 0)
    assert built.log.head() == head


def test_a_plan_that_puts_away_much_waits_for_a_person(register, settings, built):
    register("archive", archiving(30))
    with ran(settings, "archive") as result:
        metadata = asset_metadata(result, "archive")
        failed = [
            evaluation
            for evaluation in result.get_asset_check_evaluations()
            if not evaluation.passed
        ]
    assert (result.success, metadata["state"]) == (True, "waiting")
    assert [(check.check_name, check.severity) for check in failed] == [
        ("plan_within_bounds", dg.AssetCheckSeverity.WARN)
    ]
    assert failed[0].description.startswith("29 of ")


def test_what_was_spent_and_what_has_no_source_is_seen(register, settings, built):
    def spending(context: Context) -> Proposal:
        body = Called(
            purpose="facts",
            model="m",
            tier="cheap",
            prompt_sha256="0",
            prompt_tokens=40,
            cost_usd=0.5,
        )
        context.log.append([Event("c1", context.now, body, "c1")])
        draft = Draft(id="made", content="Made of nothing", source_ids=("nobody",))
        step = steps.record(draft, Made(job="facts"), context.now, "it was said")
        return Proposal((step,))

    register("facts", spending)
    strict = Settings(settings.home, Choices(llm=Llm(usd_a_run=0.1)))
    with ran(strict, "facts") as result:
        metadata = asset_metadata(result, "facts")
        failed = {
            evaluation.check_name: evaluation.description
            for evaluation in result.get_asset_check_evaluations()
        }
    assert check_results(result)["plan_within_bounds"]
    assert failed["budget_kept"] == "this run cost $0.5000, over $0.10"
    assert failed["lineage_complete"] == "1 memory without a known source: made (nobody)"
    assert (metadata["model"], metadata["calls"], metadata["tokens"]) == ("m", 1, 40)


def test_all_run_in_order_and_one_that_fails_stops_no_other(register, settings, built):
    for name, propose in (("judge", idle), ("archive", archiving(3)), ("facts", breaking)):
        register(name, propose)
    reports: list[object] = []
    results = learn(settings, "default", "learn", reports.append, wait_s=1.0)
    assert TOLD == ["facts", "archive", "judge"]
    assert [(result.job, result.outcome, result.steps) for result in results] == [
        ("facts", "failed", 0),
        ("archive", "done", 3),
        ("judge", "done", 0),
    ]
    assert "what it looked for" in results[0].warnings[0]
    assert results[1].plan and results[2].plan is None
    (failure,) = failures.every(built.tenant.root)
    assert (failure.what, failure.times) == ("learning.facts", 1)
    assert failure.said == "NotFound: what it looked for"
    register("facts", idle)
    learn(settings, "default", "facts", reports.append, wait_s=1.0)
    assert not list(failures.every(built.tenant.root))


def test_an_unknown_job_is_refused(register, settings):
    register("judge", idle)
    with pytest.raises(InvalidInput, match="choose from judge, learn"):
        learn(settings, "default", "archive", lambda event: None)


def test_one_run_of_a_tenant_learns_at_a_time(register, settings, built):
    register("judge", idle)
    with (
        run_resources.hold_tenant_lock(built.tenant),
        pytest.raises(BuildBusy, match="is learning already"),
    ):
        learn(settings, "default", "judge", lambda event: None, wait_s=0.1)


def look(settings: Settings, instance: dg.DagsterInstance) -> None:
    resources = {"memory_home": settings.home}
    with dg.build_sensor_context(instance=instance, resources=resources) as context:
        definitions.log_head(context)


KILLED = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from pipelines import jobs
from store.home.config import Settings

def propose(context):
    print("asking", flush=True)
    time.sleep(60)

jobs.JOBS.clear()
jobs.JOBS["facts"] = jobs.Job("facts", "Sleeps.")
sys.modules["pipelines.jobs.facts"] = SimpleNamespace(propose=propose)
from pipelines.orchestration.in_process import learn
from pipelines.orchestration.definitions import dagster_name
learn(Settings(Path(sys.argv[1])), "default", "facts", lambda event: None)
"""


def test_a_killed_run_gives_its_place_back(register, settings, built, child, monkeypatch):
    settings_file = dagster_home.prepare_home(settings) / "dagster.yaml"
    # counted by step, a possible setting: then a killed run keeps its place in the pool
    text = settings_file.read_text().replace("granularity: run", "granularity: op")
    settings_file.write_text(text)
    process = child(KILLED, settings.home)
    assert process.stdout.readline() == "asking\n"
    monkeypatch.setattr(definitions, "DEAD_AFTER_S", -1)
    with dagster_home.instance(settings) as instance:
        (run,) = instance.get_runs()
        look(settings, instance)
        assert not instance.get_run_by_id(run.run_id).is_finished  # it is alive
        process.kill()
        process.wait()
        assert instance.event_log_storage.get_concurrency_run_ids() == {run.run_id}
        look(settings, instance)
        assert instance.get_run_by_id(run.run_id).is_failure
        assert not instance.event_log_storage.get_concurrency_run_ids()
    (failure,) = failures.every(built.tenant.root)
    assert (failure.what, failure.run) == ("learn_facts", run.run_id)
    register("facts", idle)
    assert learn(settings, "default", "facts", lambda event: None)[0].outcome == "done"
    assert not list(failures.every(built.tenant.root))


def test_the_pool_has_one_place_unless_somebody_says_otherwise(settings):
    with dagster_home.instance(settings) as instance:
        config = instance.get_concurrency_config().pool_config
    assert (config.default_pool_limit, config.pool_granularity.value) == (1, "run")


def test_a_schedule_runs_a_job_only_where_it_is_on(register, settings, built):
    register("judge", idle)
    defs = make_definitions(settings)
    schedule = defs.resolve_schedule_def("learn_judge_by_night")
    with dagster_home.instance(settings) as instance:

        def asked() -> list[dg.RunRequest] | str | None:
            at = datetime(2026, 11, 20, 4, 10)
            with dg.build_schedule_context(instance, at, {"memory_home": settings.home}) as context:
                request = schedule(context)
            return request.skip_message if isinstance(request, dg.SkipReason) else request

        assert asked() == "no tenant has it on: `mnemolog jobs on judge`"
        job_catalog.set_switches(built.tenant, ["judge"], on=True)
        (request,) = asked()
        assert (request.run_key, request.partition_key) == ("judge:default:2026-11-20", "default")
        job_catalog.set_switches(built.tenant, ["judge"], on=False)
        assert asked() == "no tenant has it on: `mnemolog jobs on judge`"


def test_switches_that_cannot_be_read_are_all_off(built):
    job_catalog.set_switches(built.tenant, ["judge", "learn"], on=True)
    assert job_catalog.load_switches(built.tenant).on == {"judge", "learn"}
    path = built.tenant.root / "jobs.json"
    for broken in ("{", '{"on": ["nothing"]}', "[]"):
        path.write_text(broken)
        switches = job_catalog.load_switches(built.tenant)
        assert not switches.on and str(path) in switches.problem
    with pytest.raises(InvalidInput, match="'nothing': choose from facts"):
        job_catalog.set_switches(built.tenant, ["nothing"], on=True)


def test_settings_that_nobody_changed_are_brought_up_to_date(settings, monkeypatch):
    settings_file = dagster_home.prepare_home(settings) / "dagster.yaml"
    written = settings_file.read_bytes()
    settings_file.write_text("telemetry: {enabled: false}\n")
    digest = sha256(settings_file.read_bytes()).hexdigest()
    monkeypatch.setattr(dagster_home, "_OLDER", {digest})
    dagster_home.prepare_home(settings)
    assert settings_file.read_bytes() == written


def test_a_failure_is_kept_until_the_same_goes_right(built):
    root = built.tenant.root
    failures.keep(root, "a", NOW, "the key is ghp_" + "a1B2c3D4e5F6" * 3, "r1")
    failures.keep(root, "a", NOW + 1, "no answer", "r1")
    failures.keep(root, "a", NOW + 2, "no answer", "r2")
    failures.keep(root, "b", NOW, "full disk")
    assert [(failure.what, failure.at, failure.times) for failure in failures.every(root)] == [
        ("a", NOW + 2, 2),
        ("b", NOW, 1),
    ]
    failures.forget(root, "a")
    (root / "failures" / "b.json").write_text("{")
    assert "cannot be read" in next(failures.every(root)).said


def test_no_secret_is_kept_with_a_failure(built):
    failures.keep(built.tenant.root, "a", NOW, "the key is ghp_" + "a1B2c3D4e5F6" * 3)
    assert "ghp_" not in next(failures.every(built.tenant.root)).said
