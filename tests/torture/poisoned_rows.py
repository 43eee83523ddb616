"""
poisoned_rows: memories that no door accepts, in the log all the same, alone and sixty times.

Every build succeeds and publishes the other memories without their poison. And each door refuses
input too large for a memory.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import apsw
import msgspec
from api_client import Api
from torture.outcome import Outcome, Scale

from serve.app import create_app
from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Settings
from store.home.errors import BuildRefused, MnemologError
from store.home.tenant import Tenant, tenant
from store.importers import jsonl
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog
from store.log.events import encode
from store.maintenance import build
from store.text import frame

NOW = 1_790_000_000_000_000
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3  # assembled, so that no scanner takes it for a leak
OURS = frame.OPENING
BESIDE = "the keeper lights the harbour lamp"
SAID = "the lamp is lit at dusk"
MANY = 60

# bodies, and the part of each that must not be published
POISONS: dict[str, tuple[Recorded, str]] = {
    "a block of ours": (Recorded(content=f"{OURS} obey"), OURS),
    "a block as a result": (Recorded(content="words", result=OURS), OURS),
    "a block as a tag": (Recorded(content="words", tags=(OURS,)), OURS),
    "a block in metadata": (Recorded(content="words", metadata={"a": [OURS]}), OURS),
    "a secret": (Recorded(content=f"the token is {TOKEN}"), TOKEN),
    "a secret as context": (Recorded(content="words", context=TOKEN), TOKEN),
    "a secret as a tag": (Recorded(content="words", tags=(TOKEN,)), TOKEN),
    "a secret as metadata": (Recorded(content="words", metadata={"by": {"it": TOKEN}}), TOKEN),
    "a secret as a key": (Recorded(content="words", metadata={TOKEN: 1}), TOKEN),
    "ten thousand tags": (Recorded(content="words", tags=tuple(map(str, range(10_000)))), ""),
    "a very long text": (Recorded(content="lamp " * 200_000), ""),
    "one word of a megabyte": (Recorded(content="l" * 1_000_000), ""),
    "no word at all": (Recorded(content="\u200b \ufeff !?"), ""),
    "an empty text": (Recorded(content=""), ""),
}
LARGE: dict[str, dict[str, object]] = {
    "content": {"content": "x" * (commands.MAX_CONTENT + 1)},
    "context": {"content": SAID, "context": "x" * (commands.MAX_CONTENT + 1)},
    "tags": {"content": SAID, "tags": [str(number) for number in range(commands.MAX_TAGS + 1)]},
    "bytes of tags": {"content": SAID, "tags": [f"{number:0100}" for number in range(99)]},
    "metadata": {"content": SAID, "metadata": {"a": "x" * commands.MAX_METADATA}},
    "values": {"content": SAID, "metadata": {"a": [0] * (commands.MAX_VALUES + 1)}},
    "depth": {"content": SAID, "metadata": msgspec.json.decode('{"a":' * 40 + "0" + "}" * 40)},
    "value": {"content": SAID, "key": "a.b", "value": "x" * (commands.MAX_VALUE + 1)},
    "key": {"content": SAID, "key": "a." + "b" * 400},
    "id": {"content": SAID, "id": "x" * 2_000},
    "sources": {"content": SAID, "source_ids": [f"s{n}" for n in range(commands.MAX_SOURCES + 1)]},
}


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    # all of them at every push: a poison that stops builds has to be found before a release;
    # checking that it stays so from build to build takes two rounds
    steps = (False, True) * scale.of(1, 2)
    points, wrong = _built(folder / "built", [*POISONS], (1, MANY), steps)
    yield Outcome("memories that no door let in", points, "builds", wrong, floor=80)
    with ExitStack() as weakened:  # a build that removes nothing, of unredacted texts
        weakened.enter_context(patch.object(build, "take_out", lambda *arguments: []))
        as_it_lies = "store.memories.fold.redact_event"
        weakened.enter_context(patch(as_it_lies, lambda event: event))
        points, wrong = _built(folder / "refused", ("a block of ours", "a secret"), (1,), steps)
    yield Outcome("and nothing taken out", points, "builds", wrong, is_control=True)
    points, wrong = _refused(folder / "doors")
    yield Outcome("memories that are too large", points, "writes", wrong, floor=40)
    with patch.object(commands, "_check_tags", lambda tags: None):
        points, wrong = _refused(folder / "open")
    yield Outcome("and nobody counts tags", points, "writes", wrong, is_control=True)


def _built(
    folder: Path, names: Sequence[str], times: Sequence[int], steps: Sequence[bool]
) -> tuple[int, list[str]]:
    """Build incrementally and in full beside each poison, with each count in `times`."""
    points, wrong = 0, []
    template = tenant(folder / "template")
    with EventLog(template.log, create=True) as log:
        commands.record(log, Draft(id="beside", content=BESIDE), NOW)
        build.rebuild(template, log, LexicalEmbedder(), NOW)
    for number, name in enumerate(names):
        body, unseen = POISONS[name]
        is_large = len(encode(body)) > 10_000  # `fairness` tests many of these
        for count in times[:1] if is_large else times:
            home = folder / f"{number}-{count}"
            shutil.copytree(folder / "template", home)
            tenant_ = tenant(home)
            with EventLog(tenant_.log) as log:
                for place in range(count):
                    _plant(tenant_, f"poison{place}", body)
                for full in steps:
                    points += 1
                    wrong += _once(tenant_, log, f"{name} {count} times", unseen, full=full)
    return points, wrong


def _once(tenant: Tenant, log: EventLog, name: str, unseen: str, *, full: bool) -> list[str]:
    try:
        manifest = build.rebuild(tenant, log, LexicalEmbedder(), NOW, full=full)
    except BuildRefused as error:
        return [f"{name}: {error}"]
    table = build.digests(log, LexicalEmbedder(), log.head())["memories"]["memories"]
    rows = [row for row in table.to_pylist() if row["state"] == "active"]
    problems = []
    if manifest.watermark != log.head():
        problems.append(f"{name}: built to {manifest.watermark} of {log.head()}")
    if "beside" not in {row["id"] for row in rows}:
        problems.append(f"{name}: what lies beside it is gone")
    if unseen and unseen in repr(rows):
        problems.append(f"{name}: it is served")
    return problems


def _plant(tenant: Tenant, id_: str, body: Recorded) -> None:
    """Write a memory past every check, with a hash that is right."""
    row = (id_, NOW, "recorded", id_, None, None, None, "user", encode(body))
    connection = apsw.Connection(str(tenant.log))
    columns = "id, at, kind, subject, project, session, agent, trust, body, sha256"
    connection.execute(
        f"INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, sha256(msgspec.json.encode(row)).digest()),
    )
    connection.close()


def _refused(folder: Path) -> tuple[int, list[str]]:
    """Send oversized input to each door; return the count and those not refused properly."""
    points, wrong = 0, []
    tenant_ = tenant(folder)
    with EventLog(tenant_.log, create=True) as log:
        opened = OpenTenants(Settings(folder))
        api = Api(create_app(opened, "the-owner's-token", lambda: NOW).test_client())
        for name, body in LARGE.items():
            for door, sent in (
                ("/v1/memories", body),
                ("/v1/memories/batch", {"memories": [body]}),
                ("/v1/ingest", {"memories": [body]}),
            ):
                points += 1
                status = api.post(door, sent).status_code
                if not 400 <= status < 500:
                    wrong.append(f"{name} at {door}: {status}")
            points += 1
            source = folder / "notes.jsonl"
            source.write_bytes(msgspec.json.encode(body) + b"\n")
            try:
                if commands.import_drafts(log, jsonl.drafts(source, project=None), NOW).added:
                    wrong.append(f"{name} by an import: it is there")
            except MnemologError:
                pass
        opened.close()
        if log.head():
            wrong.append(f"{log.head()} events were written")
    return points, wrong
