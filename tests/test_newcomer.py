"""
A newcomer's first day: a repository's history and old sessions are imported, and the next session's
brief contains no nonsense.

The history and one untidy session are made here. The real sessions are a sample of the corpus
`shared/eval-work/agentwork` if it is next to the checkout, else those of tests/data.
"""

import gzip
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import ROOT
from hook_session import MINUTE, Session, notes
from test_import_git import Repository
from transcript_files import DATA, ClaudeCode

from pipelines.jobs import find_job
from pipelines.jobs.runner import run
from serve.cli import main
from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant
from store.home.config import Settings
from store.importers.transcript_hosts import TRANSCRIPT_HOSTS, find_transcripts
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build

DAY = 86_400_000_000
CORPUS = next(
    (
        folder
        for above in ROOT.parents[:2]
        if (folder := above / "shared" / "eval-work" / "agentwork" / "transcripts").is_dir()
    ),
    None,
)
EACH = 2  # sessions of each repository of the corpus
JOBS = ("consolidate", "distill", "facts", "importance", "judge", "reflect", "archive")

# a commit's message, the files it touched, and a question whose first answer it is
COMMITS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "Deprecate the legacy cursor\n\nIt is replaced by pages, and goes in 3.0.",
        ("tide/cursor.py", "CHANGES.rst"),
        "why is the legacy cursor deprecated?",
    ),
    (
        "Drop support for Python 3.7\n\nIts security fixes have ended.",
        ("pyproject.toml", "tox.ini", "tide/typing.py"),
        "when did we drop Python 3.7?",
    ),
    (
        "Choose SQLite for the harbour index\n\nWe decided against Postgres: a file is enough.",
        ("harbour/index.py", "docs/design.rst"),
        "why SQLite for the harbour index?",
    ),
    (
        "Fix wrong high water of southern ports (#412)\n\nThe sign of the latitude was lost.",
        ("tide/ports.py", "tests/test_ports.py"),
        "what fixed the high water of southern ports?",
    ),
    (
        "Add streaming of gauge readings",
        ("gauge/stream.py", "docs/gauge.rst"),
        "where was streaming of gauge readings added?",
    ),
    (
        "Cache the lunar tables\n\nBuilding them took four seconds at each start.",
        ("lunar/tables.py",),
        "why are lunar tables cached?",
    ),
    (
        "Rename the option horizon to reach",
        ("cli/options.py", "README.md"),
        "what is the option horizon called now?",
    ),
    (
        "Revert the parallel solver\n\nIt lost precision beyond ten days.",
        ("solver/core.py",),
        "why did we revert the parallel solver?",
    ),
    (
        "Limit uploads of charts to 20 MB\n\nLarger ones exhausted the worker's memory.",
        ("charts/upload.py",),
        "how large may uploads of charts be?",
    ),
    ("Warn about stale buoy positions", ("buoy/positions.py",), "when do we warn about buoys?"),
)
OTHERS = 30  # commits that answer nothing

OWN = "From now on always use metric units in this project."
ISSUE = """Fix this bug to solve the issue based on manual.yaml:
  instance_id: tide__tide-412
  repo: tide/tide
  base_commit: 5c1644ff85e1
  problem_statement: Wrong sign for southern ports
We should always return negative latitudes. Whenever a port is south, the sign itself is undefined.

Never trust the sign of the table, use the name of the port instead.
"""


@dataclass
class Newcomer:
    """The imported history. `issues` are the pasted texts, `written` the files sessions made."""

    session: Session
    settings: Settings
    issues: list[str] = field(default_factory=list)
    written: set[str] = field(default_factory=set)

    @property
    def brief(self) -> str:
        self.session.name += "x"
        return self.session.start()


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    folder = tmp_path_factory.mktemp("newcomer")
    home, sessions = folder / "home", folder / "sessions"
    patch = pytest.MonkeyPatch()
    patch.setenv("HOME", str(folder))
    patch.setenv("MNEMOLOG_HOME", str(home))
    repository = Repository(folder / "tide")
    repository.git("remote", "add", "origin", "https://example.test/tide.git")
    for number in range(OTHERS):
        repository.commit(f"Tidy the comments of part {number}", f"parts/part{number}.py")
    for message, files, _ in COMMITS:
        repository.commit(message, *files)
    settings = Settings(home)
    EventLog(tenant.tenant(home).log, create=True).close()
    tenants = OpenTenants(settings)
    session = Session(tenants, cwd=str(repository.path), at=time.time_ns() // 1_000)
    newcomer_ = Newcomer(session, settings)
    write_untidy_session(sessions, repository.path)
    for number, lines in enumerate(real_sessions()):
        text = re.sub(r'"cwd":\s*"[^"]*"', f'"cwd":{json.dumps(session.cwd)}', lines)
        (sessions / f"{number}.jsonl").write_text(text)
    note_origins(newcomer_, sessions)
    for words in (("git", str(repository.path)), ("claude-code", str(sessions))):
        result = CliRunner().invoke(main, ["import", *words])
        assert result.exit_code == 0, result.output
    opened = tenants.get("default")
    build.rebuild(opened.tenant, opened.log, LexicalEmbedder(), session.at)
    opened.reader.poll()
    yield newcomer_
    tenants.close()
    patch.undo()


def real_sessions() -> Iterator[str]:
    if CORPUS is None:
        for path in sorted((DATA / "claude-code").rglob("*.jsonl")):
            yield path.read_text()
        return
    for repository in sorted(CORPUS.iterdir()):
        for packed in sorted(repository.glob("*.jsonl.gz"))[:EACH]:
            yield gzip.decompress(packed.read_bytes()).decode()


def write_untidy_session(folder: Path, cwd: Path) -> None:
    writer = ClaudeCode(cwd=str(cwd))
    writer.ask(OWN)
    writer.say("Understood.")
    writer.ask(ISSUE)
    for name in ("test_issue.py", "check_fix.py"):
        write = {"file_path": f"{cwd}/{name}", "content": "print('south')\n"}
        writer._tool("Write", write, "File created", 0)
    writer.run("python test_issue.py", "south")
    writer.run("pylint check_fix.py", "Your code has been rated at 10/10")
    writer.run("python -m pytest tests/test_ports.py", "3 passed")
    writer.say("The sign of the latitude is kept now.")
    folder.mkdir()
    (folder / "untidy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in writer.lines))


def note_origins(newcomer: Newcomer, folder: Path) -> None:
    """Collect the pasted issues and the files that sessions made, as the import reads them."""
    host = TRANSCRIPT_HOSTS["claude-code"]
    for transcript in find_transcripts(host, folder, lambda reason: None):
        for turn in host.turns(transcript, lambda reason: None):
            first, _, rest = turn.request.text.partition("\n")
            if first.startswith("Fix this bug"):
                newcomer.issues.append(" ".join(rest.split()))
            newcomer.written |= {Path(file).name for step in turn.steps for file in step.tool.files}


def test_a_statement_of_the_brief_is_the_users_and_no_pasted_issue(newcomer: Newcomer):
    assert newcomer.issues
    notes_ = [note for note in notes(newcomer.brief) if "user_said" in note or "rule" in note]
    texts = [note.get("user_said") or note["rule"] for note in notes_]
    assert OWN in texts  # the control
    for text in texts:
        words = " ".join(text.split())[:60]
        assert not any(words in issue for issue in newcomer.issues), text


def test_no_commands_of_the_brief_run_what_a_session_made(newcomer: Newcomer):
    assert "test_issue.py" in newcomer.written
    worked = [note for note in notes(newcomer.brief) if "test" in note or "lint" in note]
    assert worked and "pytest" in worked[0]["test"]  # the control
    for command in (text for note in worked for text in note.values()):
        named = {word for word in command.split() if "/" not in word}
        assert not named & newcomer.written, command


def test_a_decision_of_the_brief_is_its_words_without_a_list_of_files(newcomer: Newcomer):
    decisions = [note["decision"] for note in notes(newcomer.brief) if "decision" in note]
    assert any("SQLite" in text or "Python 3.7" in text for text in decisions)
    assert not any("Files:" in text for text in decisions)


def test_nine_of_ten_first_answers_hold_what_was_asked_and_the_tenth_is_near(newcomer: Newcomer):
    ranks = {}
    for message, _, question in COMMITS:
        where = ("--home", str(newcomer.settings.home))
        result = CliRunner().invoke(main, [*where, "recall", question, "--all-projects", "--json"])
        assert result.exit_code == 0, result.output
        texts = [hit["text"] for hit in json.loads(result.stdout)["hits"]]
        subject = message.partition("\n")[0]
        ranks[question] = [text.startswith(subject) for text in texts[:3]]
    assert all(map(any, ranks.values())), ranks
    assert sum(rank[0] for rank in ranks.values()) >= 9, ranks


def test_jobs_run_and_archive_nothing_from_today(newcomer: Newcomer):
    settings, now = newcomer.settings, newcomer.session.at + MINUTE
    for name in JOBS:
        plan = run(find_job(name), settings, "default", now, apply=not find_job(name).is_careful)
        assert plan is None or name != "archive", plan.body.steps[:3]
    later = now + 400 * DAY  # the control: untouched for a year, while the project went on
    fresh = Draft(content="The tide gauge was moved", project="example.test/tide")
    commands.record(newcomer.session.log, fresh, later - DAY)
    plan = run(find_job("archive"), settings, "default", later, apply=False)
    assert plan is not None and plan.body.steps
