"""Old and new programs, old and new logs: every pair works, or the program refuses by name."""

import json
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from folds import fold_events

from store.home.errors import LogVersion
from store.log import commands, integrity, salvage, vocabulary
from store.log.commands import Draft
from store.log.event_kinds import Pinned, Planned, Recorded, Step
from store.log.event_log import EventLog
from store.log.events import KINDS, Event
from store.log.log_file import SCHEMA_VERSION

NOW = 1_790_000_000_000_000
DATA = Path(__file__).parent / "data"
KNOWN = DATA / "vocabulary.json"  # by kind, its version and the digest of its body's schema

# A later mnemolog, with one more kind of memory and one more kind of event.
NEWER = """
import sys
from pathlib import Path
from typing import Literal
import msgspec
from store.log import event_kinds, events, vocabulary

class Hunch(event_kinds.Body, frozen=True, kw_only=True):
    strength: int = 1

class Recorded(event_kinds.Recorded, frozen=True, kw_only=True):
    kind: Literal["fact", "hunch"] = "fact"

for kind, body in (("hunch", Hunch), ("recorded", Recorded)):
    events.KINDS[kind] = body
    events._kind_of[body] = kind
    events._decoders[kind] = msgspec.json.Decoder(body)
vocabulary.ADDED = {"recorded": (lambda body: body.kind == "hunch",)}

from store.log.event_log import EventLog
wanted = {
    "hunch": Hunch(),
    "recorded": Recorded(content="perhaps", kind="hunch"),
    "known": Recorded(content="certainly"),
}
with EventLog(Path(sys.argv[1]), create=True) as log:
    for name in sys.argv[2:]:
        log.append([events.Event(name, 1, wanted[name], name)])
    print(sum(1 for _ in log.read()))
"""

# An earlier mnemolog from this repository's history: log schema 5, and no statements.
EARLIER = "13499985"
OPENS = """
import sys
from pathlib import Path
from store.log import EventLog
try:
    EventLog(Path(sys.argv[1]), create=True).close()
except Exception as error:
    print(type(error).__name__, error)
"""


def write_newer(path: Path, *names: str) -> None:
    subprocess.run([sys.executable, "-c", NEWER, path, *names], check=True, capture_output=True)


def older_log(folder: Path, name: str) -> Path:
    with zipfile.ZipFile(DATA / "older_logs.zip") as archive:
        archive.extract(f"{name}.sqlite", folder)
    return (folder / f"{name}.sqlite").rename(folder / "log.sqlite")


# A new program, an old log


@pytest.mark.parametrize(
    ("name", "ids"),
    [("before-statements", {"m1", "m2", "p1"}), ("with-statements", {"m1", "m2", "p1", "s1"})],
)
def test_a_log_of_an_earlier_mnemolog_opens_and_takes_events(tmp_path: Path, name: str, ids: set):
    with EventLog(older_log(tmp_path, name)) as log:
        assert integrity.problems(log) == []
        commands.record(log, Draft(content="The cache is Redis", id="new"), NOW)
        rows = fold_events(log.read()).rows
        assert {*rows} == ids | {"new"}
        assert rows["m1"].content == "The staging database is Postgres 17"
        assert integrity.problems(log) == []


# An old program, a new log


def test_an_earlier_mnemolog_refuses_a_log_of_this_one(tmp_path: Path):
    root = Path(__file__).parent.parent
    completed = subprocess.run(
        ["git", "archive", EARLIER, "store", "-o", str(tmp_path / "earlier.tar")],
        cwd=root,
        capture_output=True,
    )
    if completed.returncode:
        pytest.skip(f"the history of this clone does not reach back to {EARLIER}")
    subprocess.run(["tar", "-xf", "earlier.tar"], cwd=tmp_path, check=True)
    path = tmp_path / "log.sqlite"
    with EventLog(path, create=True) as log:
        commands.record(log, Draft(content="The cache is Redis"), NOW)
    before = path.read_bytes()
    run = subprocess.run(
        [sys.executable, "-c", OPENS, path], cwd=tmp_path, capture_output=True, text=True
    )
    assert "LogVersion" in run.stdout and "upgrade mnemolog" in run.stdout, run
    assert path.read_bytes() == before


# This program, the log of a later one


@pytest.mark.parametrize(
    ("kind", "version"), [("hunch", 1), ("recorded", 2)], ids=["a new kind", "a new word"]
)
def test_a_log_with_what_a_later_mnemolog_added_is_refused_by_name(
    tmp_path: Path, kind: str, version: int
):
    path = tmp_path / "log.sqlite"
    write_newer(path, "known", kind)
    before = path.read_bytes()
    with pytest.raises(LogVersion, match=f"'{kind}', version {version}.*upgrade mnemolog"):
        EventLog(path)
    assert path.read_bytes() == before


def test_a_log_of_a_later_mnemolog_that_says_nothing_new_is_read_and_written(tmp_path: Path):
    path = tmp_path / "log.sqlite"
    write_newer(path, "known")
    with EventLog(path) as log:
        log.append([Event("mine", NOW, Pinned(), "known")])
        assert [event.id for event in log.read()] == ["known", "mine"]
        assert integrity.problems(log) == []
    write_newer(path, "hunch")  # which reads this program's event


@pytest.mark.parametrize("kind", ["hunch", "recorded"])
def test_an_open_log_that_a_later_mnemolog_writes_to_is_refused(tmp_path: Path, kind: str):
    with EventLog(tmp_path / "log.sqlite", create=True) as log:
        write_newer(log.path, kind)
        for act in (
            lambda: list(log.read()),
            lambda: log.append([Event("mine", NOW, Pinned(), "known")]),
        ):
            with pytest.raises(LogVersion, match=kind):
                act()
        assert log.head() == 1


def test_a_plan_needs_what_its_steps_need(monkeypatch: pytest.MonkeyPatch):
    added = {"recorded": (lambda body: body.kind == "statement",)}
    monkeypatch.setattr(vocabulary, "ADDED", added)
    body = {"content": "words", "kind": "statement"}
    step = Step(event="recorded", subject="m", body=body, why="so")
    plan = Event("p", NOW, Planned(job="reflect", watermark=1, steps=(step,)), "p")
    assert vocabulary.needed([plan]) == {"planned": 1, "recorded": 2}
    assert vocabulary.needed([Event("m", NOW, Recorded(content="a"), "m")]) == {"recorded": 1}


def test_a_salvaged_log_notes_its_kinds(log: EventLog):
    log.append([Event("m", NOW, Recorded(content="words"), "m")])
    log.close()
    salvage.write(log.path, salvage.salvage(log.path), NOW)
    assert noted(log.path) == {"recorded": 1}


def test_events_that_are_not_written_are_not_noted(log: EventLog):
    log.append([Event("m", NOW, Recorded(content="words"), "m")])
    with pytest.raises(ZeroDivisionError):
        log.append([Event("p", NOW, Pinned(), "m")], [lambda connection: 1 / 0])  # type: ignore[arg-type,return-value]
    assert noted(log.path) == {"recorded": 1}


def noted(path: Path) -> dict[str, int]:
    connection = apsw.Connection(str(path))
    versions = dict(connection.execute("SELECT kind, version FROM vocabulary").fetchall())
    connection.close()
    return versions


# A changed body schema needs a new version


def test_a_body_that_changed_has_another_version():
    """If this fails, add a test to the kind in `vocabulary.ADDED` that recognizes a body with the
    new content. Then run `python tests/test_vocabulary.py` to write the file anew.
    """
    lines = json.loads(KNOWN.read_text())
    assert lines["schema"] == SCHEMA_VERSION
    now = current()
    changed = [
        kind for kind, (_, body) in now.items() if lines["kinds"].get(kind, [0, ""])[1] != body
    ]
    unraised = [kind for kind in changed if lines["kinds"].get(kind, [0])[0] == now[kind][0]]
    assert not unraised, "raise their versions in store/log/vocabulary.py"
    assert lines["kinds"] == now, "run: python tests/test_vocabulary.py"


@pytest.mark.parametrize("change", ["a word", "a field"])
def test_a_change_of_a_body_changes_its_digest(change: str):
    schema = msgspec.json.schema(Recorded)
    properties = schema["$defs"]["Recorded"]["properties"]
    before = digest(schema)
    if change == "a word":
        properties["kind"]["enum"].append("hunch")
    else:
        properties["strength"] = {"type": "integer"}
    assert digest(schema) != before


def current() -> dict[str, list[Any]]:
    versions = vocabulary.versions()
    return {
        kind: [versions[kind], digest(msgspec.json.schema(KINDS[kind]))] for kind in sorted(KINDS)
    }


def digest(schema: dict[str, Any]) -> str:
    return sha256(json.dumps(_plain(schema), sort_keys=True).encode()).hexdigest()[:16]


def _plain(schema: Any) -> Any:
    """Return a schema without titles and descriptions."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _plain(part)
        for name, part in schema.items()
        if not (name in ("description", "title") and isinstance(part, str))
    }


if __name__ == "__main__":
    text = json.dumps({"schema": SCHEMA_VERSION, "kinds": current()}, indent=1)
    KNOWN.write_text(text + "\n")
