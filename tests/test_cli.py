"""The command line as people and programs use it, on real files."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import answer, run, succeed
from msgspec.structs import replace
from msgspec.structs import replace as replace_struct

from serve.cli import main
from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import Tenant, tenant
from store.log import integrity, log_queries
from store.log.event_kinds import Prompted, SessionTold
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_head import Gap
from store.maintenance import build

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
HERE = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and a working directory outside any repository."""
    for name in [name for name in os.environ if name.startswith("MNEMOLOG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MNEMOLOG_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def rebuild(home: Path, name: str = "default") -> Tenant:
    chosen = tenant(home, name)
    mask = os.umask(0o077)
    with EventLog(chosen.log) as log:
        build.rebuild(chosen, log, LexicalEmbedder(), time.time_ns() // 1000)
    os.umask(mask)
    return chosen


def repository(path: Path, remote: str) -> Path:
    (path / ".git").mkdir(parents=True)
    (path / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    return path


def test_the_first_record_needs_no_init(home):
    succeed("record", "Deploys leave from eu-west-1")
    assert "eu-west-1" in run("recall", "where do deploys leave from").stdout


def test_another_tenant_must_be_made_first():
    assert run("--tenant", "work", "record", "Deploys leave from eu").exit_code == 3
    succeed("--tenant", "work", "init")
    succeed("--tenant", "work", "record", "Deploys leave from eu")


def test_init_twice_makes_one_private_home(home):
    assert answer("init")["new"] is True
    assert answer("init")["new"] is False
    for path in [home, *home.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_home_option_beats_the_environment(tmp_path, home):
    succeed("--home", str(tmp_path / "other"), "record", "Elsewhere it lies")
    assert (tmp_path / "other" / "tenants" / "default" / "log.sqlite").exists()
    assert not home.exists()


@pytest.mark.parametrize("words", [("--tenant", "../x", "init"), ("--tenant", "A", "status")])
def test_tenant_names_that_leave_their_folder_are_refused(words, tmp_path):
    assert run(*words).exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]


@pytest.mark.parametrize(
    "words",
    [
        ("record", "A real memory", "--project", "../x"),
        ("recall", "anything", "--project", "../x"),
        ("list", "--project", "../x"),
        ("export", "--project", "../x"),
        ("import", "jsonl", "-", "--project", "../x"),
    ],
)
def test_project_names_with_dots_are_refused(words):
    run("init")
    assert run(*words, stdin="").exit_code == 2


def test_record_keeps_every_field():
    payload = answer(
        *("record", "The region is eu", "--kind", "fact", "--tag", "ops", "--tag", "eu"),
        *("--key", "deploy.region", "--value", "eu", "--importance", "0.9", "--ttl", "30d"),
        *("--pin", "--context", "c", "--action", "a", "--result", "r", "--trust", "agent"),
        *("--id", "my-id", "--project", "demo"),
    )
    assert payload == {"id": "my-id", "seq": 1, "new": True, "redacted": False}
    shown = answer("show", "my-id")
    assert (shown["key"], shown["value"], shown["tags"]) == ("deploy.region", "eu", ["ops", "eu"])
    assert (shown["importance"], shown["pinned"], shown["trust"]) == (0.9, True, "agent")
    assert (shown["context"], shown["action"], shown["result"]) == ("c", "a", "r")
    assert shown["project"] == "demo"
    assert shown["expires_at"] > shown["updated_at"]


def test_the_same_id_again_is_the_same_memory():
    first = answer("record", "Said twice", "--id", "one")
    again = answer("record", "Said twice", "--id", "one")
    assert (first["new"], again["new"]) == (True, False)
    assert run("record", "Said otherwise", "--id", "one").exit_code == 2


def test_the_newest_value_of_a_key_holds():
    run("record", "Region is us", "--key", "deploy.region", "--value", "us", "--id", "old")
    run("record", "Region is eu", "--key", "deploy.region", "--value", "eu", "--id", "new")
    assert [memory["id"] for memory in answer("list")["memories"]] == ["new"]
    assert [memory["id"] for memory in answer("list", "--state", "superseded")["memories"]] == [
        "old"
    ]


def test_record_reads_standard_input():
    payload = answer("record", "-", stdin="Written\nover two lines\n")
    assert answer("show", payload["id"])["text"] == "Written\nover two lines"


@pytest.mark.parametrize(
    "words",
    [
        ("record",),
        ("record", "test"),
        ("record", "A value alone", "--value", "eu"),
        ("record", "A bad span", "--ttl", "soon"),
        ("record", "A bad key", "--key", "nodot"),
        ("record", "A bad id", "--id", "../x"),
        ("record", "Both", "--project", "demo", "--no-project"),
        ("recall", "something", "--since", "whenever"),
        ("recall", "something", "--since", "1d", "--until", "2d"),
        ("goal", "x"),
    ],
)
def test_invalid_input_is_reported_as_json_too(words):
    run("init")
    result = run(*words, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["message"]
    assert result.stderr


def test_junk_leaves_no_home_behind(home):
    assert run("record", "todo").exit_code == 2
    assert not home.exists()


def test_a_batch_is_recorded_whole_or_not_at_all():
    good = '{"content": "First of two", "tags": ["a"]}\n\n{"content": "Second of two"}\n'
    assert [memory["new"] for memory in answer("record", "--batch", stdin=good)["memories"]] == [
        True
    ] * 2
    for bad in ('{"content": "fine one"}\n{"content": 7}', '{"content": "fine"}\n{"content": ""}'):
        result = run("record", "--batch", stdin=bad)
        assert result.exit_code == 2
    assert len(answer("list")["memories"]) == 2


def test_a_line_of_a_batch_takes_what_the_flags_take():
    words = ["--kind", "goal", "--tag", "a", "--pin", "--ttl", "30d", "--due", "2026-12-01"]
    words += ["--importance", "0.5", "--key", "release.first", "--value", "v"]
    words += ["--context", "c"]
    answer("record", "Ship the first release", "--id", "typed", *words)
    line = {"text": "Ship the first release", "id": "sent", "kind": "goal", "tag": "a"}
    line |= {"pin": True, "ttl": "30d", "due": "2026-12-01", "importance": 0.5}
    line |= {"key": "release.first", "value": "v", "context": "c"}
    answer("record", "--batch", stdin=json.dumps(line))
    typed, sent = (answer("show", id_) for id_ in ("typed", "sent"))
    told = ("text", "kind", "tags", "pinned", "importance", "key", "value", "context", "metadata")
    assert [sent.get(name) for name in told] == [typed.get(name) for name in told]


def test_a_wrong_value_is_named_by_its_option():
    result = run("record", "A note", "--key", "k", "--value", "v")
    assert result.exit_code == 2
    assert result.stderr == "mnemolog: --key 'k': write a dotted name like deploy.region\n"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"text": "a note", "kindd": "fact"}', "unknown field `kindd`. Did you mean 'kind'?"),
        ('{"text": "a note", "content": "a note"}', "`content` is given twice"),
        ('{"text": "a note", "value": "v"}', "`value` needs `key`"),
        ('{"text": "a note", "due": "2026-12-01"}', "`due` needs `kind` to be goal"),
        ('{"text": "a note", "kind": "goal", "due": "soon"}', "write a day like 2026-12-01"),
        ('{"text": "a note", "ttl": "soon"}', "'soon' is not a duration"),
        ('["a note"]', "a line is an object"),
    ],
)
def test_a_wrong_line_of_a_batch_is_named_with_its_number(line, reason):
    result = run("record", "--batch", stdin=f'{{"text": "fine"}}\n{line}\n')
    assert result.exit_code == 2
    assert "line 2: " in result.stderr and reason in result.stderr
    assert "nothing was recorded" in result.stderr


def test_the_dates_and_texts_that_a_list_prints_can_be_imported(tmp_path):
    line = {"text": "We moved to uv", "at": "2026-01-02T03:04:05Z"}
    (tmp_path / "notes.jsonl").write_text(json.dumps(line))
    assert answer("import", "jsonl", str(tmp_path / "notes.jsonl"))["added"] == 1
    (found,) = answer("list")["memories"]
    assert found["text"] == line["text"] and found["at"].startswith("2026-01-02T03:04:05")


def test_no_secret_reaches_the_disk(home):
    result = run("record", f"The token is {SECRET}", "--tag", SECRET, "--context", SECRET)
    assert "secret was redacted" in result.stderr
    assert SECRET not in result.output
    draft = {"content": f"again {SECRET}", "tags": [SECRET], "metadata": {"k": [SECRET], SECRET: 1}}
    succeed("record", "--batch", stdin=json.dumps(draft))
    run("recall", f"what about {SECRET}")
    rebuild(home)
    files = [path for path in home.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_recall_prints_what_http_answers(home):
    run("record", "Deploys need two approvals", "--kind", "decision", "--id", "d1")
    payload = answer("recall", "deploy", "approvals", "--why")
    (hit,) = payload["hits"]
    assert (hit["id"], hit["kind"], hit["text"]) == ("d1", "decision", "Deploys need two approvals")
    assert set(payload) >= {"hits", "below_bar", "degraded", "manifest", "watermark", "why"}


def test_recall_finds_what_was_built_and_what_came_after(home):
    run("record", "Deploys need two approvals", "--id", "old")
    rebuild(home)
    run("record", "Deploys need a green build", "--id", "fresh")
    payload = answer("recall", "deploys need")
    assert {hit["id"] for hit in payload["hits"]} == {"old", "fresh"}
    assert payload["manifest"] == 1


def test_recall_leaves_a_receipt_unless_told_not_to(home):
    run("record", "Deploys need two approvals")
    run("recall", "deploys")
    run("recall", "deploys", "--no-touch")
    run("why", "deploys")
    with EventLog(tenant(home).log) as log:
        assert [event.kind for event in log.read()] == ["recorded", "recalled"]


def test_no_hits_exit_with_0_and_say_what_to_do():
    run("record", "Deploys need two approvals")
    result = run("recall", "zebra")
    assert result.exit_code == 0
    assert "nothing recalled" in result.stdout
    assert "Use words that the memory would contain" in result.stdout
    assert "next        None of 1 memory shares a word" in run("why", "zebra").stdout


def test_a_search_shows_the_nearest_and_marks_the_unsure_ones():
    run("record", "Deploys need two approvals", "--id", "d1")
    run("record", "Deploys need a green build, not two", "--id", "d2")
    asked = "deploy zebra quagga unicorn okapi tapir lemur ibis heron crane stork egret"
    stdout = run("recall", asked).stdout
    assert "% unsure" in stdout and "they are the nearest" in stdout
    hit = answer("recall", asked)["hits"][0]
    assert hit["unsure"] and hit["confidence"] < 0.3
    assert "unsure" not in answer("recall", "two approvals for deploys")["hits"][0]


def test_recall_searches_for_words_of_small_talk():
    run("record", "The upload client must retry three times", "--id", "retry")
    run("record", "Thanks go to the people in CREDITS.md", "--id", "thanks")
    for word in ("retry", "thanks"):
        assert answer("recall", word)["hits"][0]["id"] == word


def test_terminal_escapes_in_a_memory_are_not_printed():
    run("record", "Deploys \x1b[31mred\x1b[0m \x07\u202eflip [bold]x[/bold]", "--id", "odd")
    for words in (("recall", "deploys"), ("show", "odd"), ("list",), ("why", "deploys")):
        stdout = run(*words).stdout
        assert "[bold]x[/bold]" in stdout
        assert not set(stdout) & {"\x1b", "\x07", "\u202e"}


def test_two_projects_do_not_see_each_other(tmp_path, monkeypatch):
    for name in ("one", "two"):
        monkeypatch.chdir(repository(tmp_path / name, f"git@github.com:acme/{name}.git"))
        succeed("record", f"Deploys of {name} need approvals", "--id", name)
    run("record", "Deploys: tell me in short sentences", "--no-project", "--id", "user")
    assert {hit["id"] for hit in answer("recall", "deploys")["hits"]} == {"two", "user"}
    found = answer("recall", "deploys", "--project", "github.com/acme/one")["hits"]
    assert {hit["id"] for hit in found} == {"one", "user"}
    assert len(answer("recall", "deploys", "--all-projects")["hits"]) == 3
    reason = run("why", "deploys", "one").stdout
    assert "belongs to github.com/acme/one" in reason


def test_recall_filters():
    run("record", "Deploys are decided on", "--kind", "decision", "--tag", "ops", "--id", "d")
    run("record", "Deploys are a fact", "--id", "f")
    assert [hit["id"] for hit in answer("recall", "deploys", "--kind", "decision")["hits"]] == ["d"]
    assert [hit["id"] for hit in answer("recall", "deploys", "--tag", "ops")["hits"]] == ["d"]
    assert answer("recall", "deploys", "--until", "1d")["hits"] == []
    assert len(answer("recall", "deploys", "--since", "1d", "--top-k", "1")["hits"]) == 1


def test_episodes_are_recalled_and_listed_by_kind(home: Path):
    run("record", "The deploy is green again", "--id", "f")
    with EventLog(tenant(home).log) as log:
        asked = Prompted(prompt="why does the deploy fail", intent="question")
        log.append([Event("e", 1, asked, "e", session="s")])
        log.append([Event("o", 2, SessionTold(stage="stopped", said="Done."), "o", session="s")])
    hits = answer("recall", "why the deploy fails", "--kind", "episode")["hits"]
    assert [hit["id"] for hit in hits] == ["e"]
    listed = answer("list", "--kind", "episode")["memories"]
    assert [memory["id"] for memory in listed] == ["e"]
    refused = run("record", "A turn", "--kind", "episode")
    assert refused.exit_code == 2 and "episode" in refused.output


def test_why_shows_the_stages():
    run("record", "Deploys need two approvals", "--id", "d1")
    stdout = run("why", "deploys zebra").stdout
    for word in ("words", "memories", "candidates", "lexical #1", "covers", "nearness"):
        assert word in stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("deploys",), "returned as number"),
        (("deploys", "--kind", "goal"), "it is a fact"),
        (("deploys zebra unicorn quagga", "--min-confidence", "0.99"), "below the threshold"),
        (("deploys", "--min-score", "9"), "is below the floor 9.0000"),
        (("deploys", "--until", "1d"), "not before --until"),
        (("zebra", "--mode", "lexical"), "no channel found it"),
    ],
)
def test_why_says_where_a_memory_was_lost(words, reason):
    run("record", "Deploys need two approvals", "--id", "d1")
    assert reason in run("why", words[0], "d1", *words[1:]).stdout


def test_a_floor_under_the_score_keeps_back_what_lies_below():
    run("record", "Deploys need two approvals", "--id", "d1")
    assert [hit["id"] for hit in answer("recall", "deploys", "--min-score", "0.01")["hits"]] == [
        "d1"
    ]
    assert answer("recall", "deploys", "--min-score", "9")["hits"] == []
    assert "floor       9.0000 of score" in run("why", "deploys", "--min-score", "9").stdout


def test_a_forgotten_memory_shows_nothing_and_can_come_back():
    run("record", "Deploys need two approvals", "--id", "d1")
    assert answer("forget", "d1", "--reason", "wrong")["event"] == "forgotten"
    assert answer("recall", "deploys")["hits"] == []
    for words in (("show", "d1"), ("list", "--state", "forgotten")):
        assert "approvals" not in run(*words).output
        assert "approvals" not in run(*words, "--json").output
    assert "it was forgotten" in run("why", "deploys", "d1").stdout
    run("restore", "d1")
    assert len(answer("recall", "deploys")["hits"]) == 1


def test_prefixes_name_memories():
    id_ = answer("record", "Deploys need two approvals")["id"]
    run("record", "Another one here", "--id", "zz-1")
    run("record", "Another two here", "--id", "zz-2")
    assert answer("show", id_[:12])["id"] == id_
    assert run("show", "zz").exit_code == 2
    assert run("show", "nothing-like-it").exit_code == 3
    assert run("forget", id_, "nothing-like-it").exit_code == 3
    assert answer("show", id_)["state"] == "active"


def test_pin_and_unpin():
    run("record", "Deploys need two approvals", "--id", "d1")
    run("pin", "d1")
    assert answer("show", "d1")["pinned"] is True
    run("pin", "--off", "d1")
    assert answer("show", "d1")["pinned"] is False


def test_a_goal_moves_and_only_a_goal():
    run("record", "Ship the first release", "--kind", "goal", "--id", "g1")
    run("record", "Deploys need two approvals", "--id", "d1")
    succeed("goal", "g1", "--status", "blocked", "--progress", "0.5")
    payload = answer("show", "g1")
    assert (payload["status"], payload["progress"]) == ("blocked", 0.5)
    assert run("goal", "d1", "--status", "done").exit_code == 2


def test_an_edge_is_shown_from_both_ends_before_and_after_a_build(home):
    run("record", "The cache was never invalidated", "--id", "why")
    run("record", "Prices were stale for a day", "--id", "what")
    succeed("link", "what", "why", "--relation", "cause")
    edge = {"source": "what", "relation": "cause", "target": "why"}
    assert answer("show", "what")["edges"] == answer("show", "why")["edges"] == [edge]
    rebuild(home)
    assert answer("show", "what")["edges"] == answer("show", "why")["edges"] == [edge]
    assert run("link", "what", "nothing", "--relation", "cause").exit_code == 3


def test_a_superseded_memory_stays_readable_and_is_recalled_no_more():
    run("record", "The port of the server is 5432", "--id", "old")
    run("record", "The port of the server is 5433", "--id", "new")
    succeed("supersede", "old", "--by", "new")
    assert [hit["id"] for hit in answer("recall", "port of the server")["hits"]] == ["new"]
    assert answer("show", "old")["superseded_by"] == "new"


def test_a_list_is_narrowed_to_a_time(tmp_path):
    rows = [
        {"text": "The old port was 80", "id": "old", "at": "2020-01-01T00:00:00Z"},
        {"text": "The port is 8443", "id": "new"},
    ]
    (tmp_path / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert answer("import", "jsonl", str(tmp_path / "notes.jsonl"))["added"] == 2

    def ids(*words: str) -> list[str]:
        return [memory["id"] for memory in answer("list", *words)["memories"]]

    assert ids() == ids("--all-projects") == ["new", "old"]
    assert ids("--since", "7d") == ["new"]
    assert ids("--until", "2021-01-01") == ["old"]
    assert ids("--since", "2019-01-01", "--until", "2019-12-31") == []
    assert run("list", "--since", "never").exit_code == 2
    both = run("list", "--all-projects", "--project", "acme/shop")
    assert (both.exit_code, "give one" in both.stderr) == (2, True)


def test_the_last_recall_of_a_person_is_rated_by_that_word():
    assert run("rate", "last", "useful").exit_code == 3
    run("record", "Deploys leave from eu-west-1", "--id", "eu")
    run("recall", "where do deploys leave from")
    last = answer("recall", "which region do deploys leave from")["recall"]
    with EventLog(tenant(Path(os.environ["MNEMOLOG_HOME"]), "default").log) as log:
        agents = log.events_for(last)[0]
        event = replace(agents, id="01ZZZZZZZZZZZZZZZZZZZZZZZZ", seq=None)
        log.append([replace(event, body=replace_struct(event.body, door="prompt"))])
    assert "'which region do deploys leave from' +0.5" in run("rate", "last", "useful").stdout
    assert answer("rate", "last", "useful", "--dry-run")["id"] == last


def test_limit_is_another_name_of_top_k():
    for number in range(4):
        run("record", f"Deploy step {number} runs the migrations first")
    assert len(answer("recall", "deploy migrations", "--limit", "2")["hits"]) == 2


def test_a_variable_that_sets_nothing_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MNEMOLOG_TENNANT", "work")
    result = run("record", "The port is 8443")
    assert result.exit_code == 0
    text = "note: MNEMOLOG_TENNANT sets nothing. Did you mean 'MNEMOLOG_TENANT'?"
    assert text in result.stderr
    (finding,) = (
        other
        for other in json.loads(run("doctor", "--json").stdout)["findings"]
        if "TENN" in other["what"]
    )
    assert finding["severity"] == "warn"
    monkeypatch.delenv("MNEMOLOG_TENNANT")
    monkeypatch.setenv("MNEMOLOG_TOP_K", "3")
    monkeypatch.setenv("MNEMOLOG_OFF", "1")
    assert "sets nothing" not in run("list").stderr


def test_list_is_newest_first_across_the_build(home):
    run("record", "The first of three", "--id", "a1")
    run("record", "The second of three", "--id", "a2", "--kind", "decision")
    rebuild(home)
    run("record", "The third of three", "--id", "a3", "--tag", "t")
    run("pin", "a1")
    assert [memory["id"] for memory in answer("list")["memories"]] == ["a3", "a2", "a1"]
    assert [memory["id"] for memory in answer("list", "--limit", "1")["memories"]] == ["a3"]
    assert [memory["id"] for memory in answer("list", "--kind", "decision")["memories"]] == ["a2"]
    assert [memory["id"] for memory in answer("list", "--tag", "t")["memories"]] == ["a3"]
    assert "The third" in run("list").stdout


def test_export_comes_back_as_it_was(tmp_path):
    run("record", "First fact here", "--tag", "a", "--tag", "b", "--project", "demo", "--pin")
    run("record", "Ship the release", "--kind", "goal", "--importance", "0.8")
    run("record", "Old value", "--key", "x.y", "--value", "1")
    run("record", "New value", "--key", "x.y", "--value", "2", "--ttl", "30d")
    run("record", "Gone for good", "--id", "gone")
    run("forget", "gone")
    file = tmp_path / "memories.jsonl"
    assert answer("export", "--output", str(file)) == {"file": str(file), "memories": 3}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    run("--tenant", "copy", "init")
    counts = answer("--tenant", "copy", "import", "jsonl", str(file))
    assert counts == {"added": 3, "known": 0, "refused": 0, "skipped": 0}
    names = ("id", "text", "tags", "kind", "project", "at", "pinned", "state", "importance", "key")
    for line in file.read_text().splitlines():
        id_ = json.loads(line)["id"]
        there, here = answer("--tenant", "copy", "show", id_), answer("show", id_)
        assert {name: there.get(name) for name in names} == {name: here.get(name) for name in names}
    again = answer("--tenant", "copy", "import", "jsonl", str(file))
    assert (again["added"], again["known"]) == (0, 3)


def test_export_of_all_states_keeps_no_forgotten_text():
    run("record", "Old value", "--key", "x.y", "--value", "1", "--id", "old")
    run("record", "New value", "--key", "x.y", "--value", "2", "--id", "new")
    run("record", "Gone for good", "--id", "gone")
    run("forget", "gone")
    lines = [json.loads(line) for line in run("export", "--all-states").stdout.splitlines()]
    assert [line["id"] for line in lines] == ["old", "new", "gone"]
    assert lines[0]["state"] == "superseded"
    assert lines[2]["content"] == ""
    assert [json.loads(line)["id"] for line in run("export").stdout.splitlines()] == ["new"]


def test_export_of_one_project_holds_no_other():
    run("record", "Of the first", "--project", "one")
    run("record", "Of the second", "--project", "two")
    (line,) = run("export", "--project", "one").stdout.splitlines()
    assert json.loads(line)["content"] == "Of the first"


def test_export_into_no_folder_is_refused(tmp_path):
    run("record", "A memory to write")
    assert run("export", "--output", str(tmp_path / "no" / "x.jsonl")).exit_code == 2
    assert run("export", "--output", str(tmp_path)).exit_code == 2


def test_export_never_replaces_a_pipe_or_a_device(tmp_path):
    run("record", "A memory to write")
    pipe, device = tmp_path / "pipe", tmp_path / "device"
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    for path in (pipe, device):
        refused = run("export", "--output", str(path))
        assert refused.exit_code == 2 and "is not a file" in refused.output
    assert pipe.is_fifo() and device.is_symlink()


def test_export_through_a_symlink_keeps_it(tmp_path):
    run("record", "A memory to write")
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "file.jsonl")
    succeed("export", "--output", str(link))
    assert link.is_symlink() and "A memory to write" in (tmp_path / "file.jsonl").read_text()


def test_status_does_not_count_lost_events(home):
    run("record", "A memory to keep")
    with EventLog(tenant(home).log) as log:
        head = log.head()
        integrity.state_gap(log, Gap(head + 1, head + 40), 1)
        assert (log.head(), integrity.event_count(log), log_queries.row_count(log)) == (
            head + 41,
            head + 1,
            head + 1,
        )
    assert json.loads(run("status", "--json").stdout)["events"] == head + 1


def test_import_markdown_tells_counts_and_the_next_step(tmp_path):
    (tmp_path / "CLAUDE.md").write_text("# Rules\n\n- Always run the tests before a commit.\n")
    result = run("import", "markdown", str(tmp_path / "CLAUDE.md"))
    assert result.stdout == "1 added, 0 known, 0 refused, 0 skipped\n"
    assert "mnemolog build" in result.stderr


def test_import_from_nowhere_is_invalid_input(tmp_path):
    for words in (("git", str(tmp_path)), ("markdown", "nowhere"), ("jsonl", "nowhere")):
        assert run("import", *words).exit_code == 2


def test_status_names_what_is_served(home):
    run("record", "Deploys need two approvals")
    assert answer("status")["manifest"] is None
    chosen = rebuild(home)
    run("record", "Deploys need a green build")
    payload = answer("status")
    assert (payload["events"], payload["tail"], payload["manifest"]["number"]) == (2, 1, 1)
    assert payload["damage"] == []
    next(chosen.snapshots.glob("postings/postings-*.arrow")).unlink()
    assert len(answer("status")["damage"]) == 1
    assert "damaged" in run("status").stdout


def test_verify_exits_with_1_on_a_difference(home):
    run("record", "Deploys need two approvals")
    succeed("verify")
    chosen = rebuild(home)
    assert answer("verify")["ok"] is True
    next(chosen.snapshots.glob("memories/memories-*.arrow")).write_bytes(b"")
    result = run("verify", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["ok"] is False


def test_doctor_exits_with_1_on_an_error(home, monkeypatch):
    assert run("doctor").exit_code == 1
    run("record", "Deploys need two approvals")
    rebuild(home)
    assert answer("doctor")["ok"] is True
    (home / "config.toml").write_text("embedder = [")
    result = run("doctor", "--json")
    assert result.exit_code == 1
    assert "config.toml" in json.loads(result.stdout)["findings"][0]["what"]


def test_doctor_names_a_setting_that_was_removed(home):
    run("record", "Deploys need two approvals")
    rebuild(home)
    (home / "config.toml").write_text('layers = ["parts"]')
    payload = answer("doctor")
    assert payload["ok"] is True
    warns = [finding for finding in payload["findings"] if finding["severity"] == "warn"]
    assert any("`layers`" in finding["what"] and finding["cure"] for finding in warns)


def test_a_foreign_log_is_a_failure_of_the_log(home):
    run("init")
    tenant(home).log.write_text("not a database at all, but long enough to be read as one " * 20)
    result = run("recall", "anything", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["error"]["code"] == "log_foreign"
    assert result.stderr.startswith("mnemolog: ")


def spawn(*words: str, **options: object) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    command = [sys.executable, "-P", "-m", "serve.cli", *words]
    return subprocess.Popen(command, env=environment, text=True, **options)


def test_a_process_reads_json_lines_from_a_pipe():
    line = '{"content": "Piped in from elsewhere", "id": "p1"}\n'
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = spawn("import", "jsonl", "-", "--json", **pipes)
    stdout, _ = process.communicate(line, timeout=120)
    assert json.loads(stdout)["added"] == 1
    assert process.returncode == 0


def test_a_closed_pipe_prints_no_traceback():
    drafts = "\n".join(json.dumps({"content": f"Memory number {n} of many"}) for n in range(2_000))
    run("record", "--batch", stdin=drafts)
    process = spawn("export", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(120) == 141


def with_jobs_that_end_with_75(folder: Path, *words: str) -> subprocess.CompletedProcess:
    """Run a command with a fake `pipelines`, which prints its call and exits with 75."""
    (folder / "fake" / "pipelines").mkdir(parents=True)
    (folder / "fake" / "pipelines" / "__init__.py").touch()
    (folder / "fake" / "pipelines" / "__main__.py").write_text(
        "import os, sys\nprint(sys.argv[1:], os.environ['MNEMOLOG_HOME'])\nsys.exit(75)\n"
    )
    places = os.pathsep.join([str(folder / "fake"), str(HERE)])
    return subprocess.run(
        [sys.executable, "-P", "-m", "serve.cli", *words],
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_build_passes_words_and_exit_code_on(tmp_path, home):
    run("record", "Deploys need two approvals")
    result = with_jobs_that_end_with_75(tmp_path, "build", "--full", "--json")
    expected = f"['build', '--tenant', 'default', '--full', '--json'] {home}"
    assert (result.stdout.strip(), result.returncode) == (expected, 75)


def test_an_import_that_builds_keeps_standard_output_for_its_json(tmp_path):
    (tmp_path / "one.jsonl").write_text('{"content": "One of the memories"}\n')
    words = ("import", "jsonl", str(tmp_path / "one.jsonl"), "--build", "--json")
    result = with_jobs_that_end_with_75(tmp_path, *words)
    assert json.loads(result.stdout)["added"] == 1
    assert "['build', '--tenant', 'default']" in result.stderr
    assert result.returncode == 75


def test_build_of_no_tenant_is_not_found():
    assert run("--tenant", "nobody", "build").exit_code == 3


def test_serve_says_where_it_listens_and_ends_on_interrupt(home):
    process = spawn(
        "serve", "--port", "0", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    payload = json.loads(process.stdout.readline())
    assert payload["pid"] == process.pid
    assert answer("status")["server"]["pid"] == process.pid
    process.send_signal(2)
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert answer("status")["server"] is None


def test_an_interrupt_ends_quietly():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = spawn("record", "-", **pipes)
    process.stdin.write("a word " * 20_000)  # more than the pipe holds: the process reads by now
    process.stdin.flush()
    process.send_signal(2)
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout, stderr.strip()) == (130, "", "")


def test_invalid_utf8_is_replaced():
    run("init")
    succeed("record", "caf\udce9 opens at nine")
    succeed("recall", "caf\udce9 opens", "--json")
    assert "opens at nine" in run("list").stdout


def test_errors_are_coloured_on_a_terminal_only():
    on_terminal = CliRunner().invoke(main, ["doctor"], color=True).stdout
    piped = run("doctor").stdout
    assert "\x1b[31merror" in on_terminal
    assert "error" in piped and "\x1b" not in piped
