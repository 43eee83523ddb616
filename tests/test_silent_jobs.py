"""A job with nothing to propose reports its inputs and the reason."""

import re

import pytest

from pipelines.jobs import JOBS, find_job
from pipelines.jobs.runner import run
from store.home.config import Settings
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.plans import plans

NOW = 1_790_000_000_000_000


@pytest.mark.parametrize("name", JOBS)
def test_a_job_that_finds_nothing_says_what_it_read(home, tenant, name):
    with EventLog(tenant.log, create=True) as log:
        commands.record(log, Draft(content="A short walk by the sea did us good"), NOW)
    tellings: list[str] = []
    job = find_job(name)
    assert run(job, Settings(home), "default", NOW + 1, apply=False, report=tellings.append) is None
    later = tellings[tellings.index(name) + 1 :]
    assert later and re.search(r"\d|\bno\b|\bnothing\b", later[-1]), tellings
    assert len(later[-1]) < 300


def test_what_a_person_said_no_to_is_said_so(home, tenant):
    with EventLog(tenant.log, create=True) as log:
        for _ in range(2):
            commands.record(log, Draft(content="The deploy runs on Tuesdays at nine"), NOW)
        job = find_job("consolidate")
        plan = run(job, Settings(home), "default", NOW + 1, apply=False)
        assert plan is not None
        plans.reject(log, plan.id, NOW + 2)
    tellings: list[str] = []
    run(job, Settings(home), "default", NOW + 3, apply=False, report=tellings.append)
    assert "all of which you rejected or undid before" in tellings[-1]
