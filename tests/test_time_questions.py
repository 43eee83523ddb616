"""Questions about a time, asked of a made-up project's log on Tuesday, 24 November 2026."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner

from serve.cli import main
from serve.reader.reader import Reader
from serve.recall.ranking import SURE
from serve.recall.request import RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.home.tenant import Tenant, tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance.build import rebuild

TODAY = datetime(2026, 11, 24, 12, tzinfo=UTC)
NOW = int(TODAY.timestamp()) * 1_000_000

# name, day, kind, text
LOG = """
rates 2025-11-18 decision Exchange rates come from the European Central Bank, once a day.
pilot 2026-05-07 milestone The pilot with three harbours went live.
grpc 2026-05-21 decision We use gRPC between the gateway and the ledger.
leak 2026-06-03 bugfix The ledger leaked file handles because cursors were never closed.
retry 2026-08-12 decision Uploads are retried five times with exponential backoff.
cert 2026-09-14 observation The wildcard certificate ran out at midnight and the portal was down.
tax 2026-09-15 lesson Ask the accountants before the tax tables change.
search 2026-10-05 activity Moved the search page to Postgres full text.
export 2026-10-08 bugfix The CSV export lost umlauts; it writes UTF-8 with a BOM.
beta 2026-10-29 milestone Version 2.0 beta went out to five customers.
berth 2026-11-02 decision Berth fees are rounded per invoice, not per line.
tides 2026-11-05 activity Wrote the importer for tide tables.
crane 2026-11-10 activity Rewired the crane scheduler to read shifts from the roster.
docks 2026-11-10 observation Dock sensors report every ninety seconds.
queue 2026-11-12 decision The queue stays in Postgres; Redis is not worth a second store.
oauth 2026-11-13 bugfix The OAuth callback failed on a trailing slash.
ledger 2026-11-16 decision The ledger gets one table per year.
portal 2026-11-17 activity Cut the customer portal's start page to one request.
mails 2026-11-18 decision Invoices are mailed at six in the morning.
flaky 2026-11-19 lesson Tests that sleep are flaky: wait for the condition.
pager 2026-11-20 observation The pager went off for a full disk on the backup host.
disk 2026-11-21 bugfix Old backups are pruned before new ones start.
logos 2026-11-23 activity Replaced the logos in the invoice template.
lint 2026-11-24 preference Small commits, and the linter before each.
""".strip().splitlines()

# question | the ids of which one must come first (none: a notice reports no memories)
BUILT_WITH = """
what did we decide last week | ledger mails
what did I work on on 10 November | crane docks
what happened last week | ledger portal mails flaky pager disk
what did we do yesterday | logos
which decisions did we make in May | grpc
what did we learn last month | -
what broke on 14 September | cert
what did we decide about Redis this month | queue
which bugs did we fix in October | export
what changed since Monday | logos lint
what happened between 2026-11-09 and 2026-11-11 | crane docks
what was released in October 2026 | beta
what did we do in July | -
what did we decide two weeks ago | queue
today | lint
was haben wir letzte Woche entschieden? | ledger mails
was ist gestern passiert? | logos
qu'avons-nous décidé la semaine dernière ? | ledger mails
""".strip().splitlines()
SET_ASIDE = """
what was done on November 12th | queue
what did we learn last week | flaky
show me everything from 2026-05-07 | pilot
any decisions last week? | ledger mails
what did we fix last week | disk
what happened over the weekend | disk
what did we decide last year | rates
what did we get done three days ago | disk
what did I do on Thursday, November 19 | flaky
anything new today? | lint
why did the portal go down in September | cert
what did we decide in August about uploads | retry
what did we work on in January | -
what happened on 2026-11-20 | pager
what have we decided since 1 November about the ledger | ledger
woran habe ich am 10. November gearbeitet? | crane docks
was haben wir im Mai beschlossen? | grpc
qu'est-ce qui s'est passé hier ? | logos
¿qué hicimos ayer? | logos
¿qué decidimos la semana pasada? | ledger mails
¿qué pasó el 20 de noviembre? | pager
""".strip().splitlines()


@pytest.fixture(scope="module", params=["tail", "built"])
def reader(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reader]:
    """The log before a build and after one."""
    place = tenant(tmp_path_factory.mktemp("home"))
    drafts = [
        Draft(id=id_, content=text, kind=kind, created_at=datetime.fromisoformat(f"{day}T09:00Z"))
        for id_, day, kind, text in (line.split(" ", 3) for line in LOG)
    ]
    with EventLog(place.log, create=True) as log:
        commands.record_batch(log, drafts, NOW)
        if request.param == "built":
            rebuild(place, log, LexicalEmbedder(), NOW)
        yield Reader(place, log, LexicalEmbedder())


def ask(reader: Reader, query: str, **fields: Any) -> dict[str, Any]:
    request = RecallRequest(query=query, touch=False, **fields)
    return answer(reader, request, Choices(), NOW)[0]


@pytest.mark.parametrize("line", [*BUILT_WITH, *SET_ASIDE])
def test_a_question_about_a_time_gets_what_was_recorded_then(reader: Reader, line: str):
    query, right = line.split(" | ")
    payload = ask(reader, query, explain=True)
    first = payload["hits"][0]["id"] if payload["hits"] else ""
    assert "interval" in payload["why"]["analysis"]
    if right == "-":
        assert "was recorded between" in payload["notices"][0]
    else:
        assert first in right.split()
        assert payload["hits"][0]["confidence"] >= SURE
        assert "notices" not in payload


def test_an_empty_time_says_so_and_shows_the_nearest_as_unsure(reader: Reader):
    payload = ask(reader, "what did we do in July?", min_confidence=0.0)
    assert payload["notices"] == [
        "Nothing was recorded between 2026-07-01 and 2026-07-31. The nearest others are shown."
    ]
    assert payload["hits"][0]["id"] == "retry"
    assert payload["hits"][0]["confidence"] < 0.3
    assert not payload["degraded"]


def test_a_kind_of_which_nothing_was_recorded_then_is_named(reader: Reader):
    payload = ask(reader, "what did we learn last month?")
    assert payload["notices"] == [
        "No lesson was recorded between 2026-10-01 and 2026-10-31. The nearest others are shown."
    ]
    assert {hit["id"] for hit in payload["hits"]} == {"search", "export", "beta"}


def test_a_topic_is_asked_for_by_its_own_words(reader: Reader):
    payload = ask(reader, "what did we decide about Kubernetes last week?", explain=True)
    assert "week" not in payload["why"]["words"]
    assert all(hit["confidence"] < 0.5 for hit in payload["hits"])
    why = ask(reader, "what did we decide about Redis last week?", explain=True)["why"]
    assert why["unheard_of"] == ["decid"]


def test_nothing_outside_a_time_comes_back_where_only_the_time_is_asked(reader: Reader):
    payload = ask(reader, "what happened last week?")
    days = [hit["at"][:10] for hit in payload["hits"]]
    assert days
    assert all("2026-11-16" <= day <= "2026-11-22" for day in days)


def test_why_shows_the_days_a_time_was_read_as(log: EventLog):
    commands.record(log, Draft(content="The queue stays in Postgres"), NOW)
    output = CliRunner().invoke(main, ["why", "what did we decide on 10 November 2025?"]).output
    assert "on 10 November 2025 is 2025-11-10 until 2025-11-11 (the filter)" in output


REMOVED = """
Redis is the queue of the importer because it is fast. | Removed Redis: the queue is in Postgres.
Python 2 support is tested on every push. | Drop Python 2 support.
The XML export is documented in docs/export.md. | Deprecated the XML export; customers use CSV.
The nightly sync job copies invoices to the archive. | Delete the nightly sync job (#412)
""".strip().splitlines()


@pytest.mark.parametrize(
    "wording",
    ["when did {} go away?", "when did we drop {}?", "since when have we stopped using {}?"],
)
@pytest.mark.parametrize("is_built", [False, True])
def test_what_was_removed_is_what_a_question_about_its_end_gets(
    tenant: Tenant, log: EventLog, wording: str, is_built: bool
):
    for line in REMOVED:
        for text in reversed(line.split(" | ")):
            commands.record(log, Draft(content=text), NOW)
    if is_built:
        rebuild(tenant, log, LexicalEmbedder(), NOW)
    reader = Reader(tenant, log, LexicalEmbedder())
    names = ("Redis", "Python 2 support", "the XML export", "the nightly sync job")
    for name, line in zip(names, REMOVED, strict=True):
        first = ask(reader, wording.format(name))["hits"][0]
        assert first["text"] == line.split(" | ")[1]
