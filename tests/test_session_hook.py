"""The context at a session's start or continuation: its own work, a brief, or nothing."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hook_session import MINUTE, Session, ids, notes, opened
from hosts_told import RECORDED, contexts, in_session, moment
from msgspec.structs import replace

from serve.hooks.answer import Hooks
from serve.hooks.brief import BYTES as BRIEF_BYTES
from serve.hooks.brief import STATEMENTS
from serve.hooks.model_context import model_context
from serve.hooks.session import DIGEST_BYTES
from serve.hosts import HOSTS
from serve.reader.session_events import SessionEvents
from store.embedders.lexical import LexicalEmbedder
from store.home import projects, tenant
from store.log import commands
from store.log.event_kinds import Acted, Followed, Prompted, SessionTold, Surfaced
from store.log.events import Event
from store.maintenance.build import rebuild
from store.plans import lesson_proposals


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    yield from opened(tmp_path)


def append_events(session: Session, *bodies: object) -> None:
    """Append events of the session as its hooks would."""
    for body in bodies:
        session.at += MINUTE
        id_ = f"e{session.at}"
        session.log.append([Event(id_, session.at, body, id_, session=session.name)])


def worked(session: Session) -> None:
    """Let the session ask, decide, edit, and leave a failing test."""
    append_events(
        session,
        Prompted(prompt="thanks", intent="small_talk"),
        Prompted(prompt="make the upload retry five times", intent="work"),
        Acted(tool="Edit", doing="edit", files=("/src/upload.py",)),
        Acted(tool="Edit", doing="edit", files=("/src/upload.py", "/src/retry.py")),
        Acted(tool="Bash", doing="run", effort="build", command="make", passed=True),
        Acted(tool="Bash", doing="run", effort="test", command="pytest -q", passed=True),
        SessionTold(stage="stopped", said="done"),
        Prompted(prompt="now let the download retry too", intent="work"),
        Acted(tool="Bash", doing="run", effort="test", command="pytest", passed=False, error="E 1"),
    )
    session.remember("Uploads are tried five times", kind="decision", session=session.name, id="d1")


def test_a_session_that_was_compacted_is_told_what_it_did(session: Session):
    worked(session)
    session.cwd = "/src"
    assert [note for note in notes(session.start("compact")) if "id" not in note] == [
        {"asked": "now let the download retry too", "answered": False},
        {"failing": "test", "ran": "pytest", "error": "E 1", "trust": "tool"},
        {"asked": "make the upload retry five times"},
        {"ran": "make", "for": "build", "passed": True, "times": 1},
        {"ran": "pytest", "for": "test", "passed": False, "times": 2},
        {"edited": "upload.py", "times": 2},
        {"edited": "retry.py", "times": 1},
    ]


def test_what_the_session_recorded_is_told_and_what_was_forgotten_is_not(session: Session):
    worked(session)
    assert ids(session.start("compact")) == ["d1"]
    commands.forget(session.log, "d1", session.at)
    assert ids(session.start("compact")) == []


def test_the_digest_is_short_however_much_was_done(session: Session):
    for number in range(60):
        append_events(session, Prompted(prompt=f"{number} " + "é" * 1_000, intent="work"))
        append_events(session, Acted(tool="Edit", doing="edit", files=(f"/{number}/" + "ü" * 300,)))
        session.remember(f"Decision {number} " + "ö" * 900, session=session.name, kind="decision")
    assert 2_000 < len(session.start("compact").encode()) <= DIGEST_BYTES


def test_a_rule_the_session_was_shown_is_shown_again_after_a_compaction(session: Session):
    session.remember("Use pnpm as the package manager, never npm", kind="preference", id="rule")
    assert ids(session.ask("which package manager should be used, npm or pnpm?")) == ["rule"]
    assert ids(session.start("compact")) == ["rule"]
    assert session.ask("which package manager should be used, npm or pnpm? tell") == ""
    assert [event.body.place for event in session.events(Surfaced)] == ["prompt", "session"]


def test_a_session_that_is_taken_up_again_is_told_nothing_that_it_was_there_for(session: Session):
    session.remember("Use pnpm as the package manager, never npm", kind="preference", id="rule")
    session.remember("Ship the release", kind="goal", id="g1")
    assert ids(session.start()) == ["rule", "g1"]
    session.ask("make the upload retry five times, it fails on slow lines")
    session.use(doing="edit", files=("src/upload.py",))
    session.stop("The upload is tried five times now.")
    session.tell("session_end")
    assert session.start("resume") == ""
    assert session.ask("where did we leave off?") == ""


def test_a_session_that_is_taken_up_again_is_not_told_what_its_user_just_stated(session: Session):
    session.remember("Use pnpm as the package manager, never npm", kind="preference", id="rule")
    session.start()
    session.ask("from now on never push to main without a review")
    session.stop("I will not.")
    session.tell("session_end")
    assert session.start("resume") == ""


def test_a_session_that_is_taken_up_again_is_told_what_came_to_be_since(session: Session):
    session.remember("Use pnpm as the package manager, never npm", kind="preference", id="rule")
    session.start()
    session.tell("session_end")
    session.remember("Never push to main", kind="lesson", id="new")
    session.name = "s2"
    session.ask("now let the download retry too, it fails on slow lines")
    session.stop("The download is tried five times now.")
    session.name = "s1"
    notes_ = notes(session.start("resume"))
    assert notes_[0]["id"] == "new" and len(notes_) == 2
    assert notes_[1]["agent_said"] == "The download is tried five times now."
    assert session.start("resume") == ""


def test_a_host_that_starts_a_session_again_is_told_the_brief_without_that_session(
    session: Session,
):
    session.remember("Use pnpm as the package manager, never npm", kind="preference", id="rule")
    session.name = "s0"
    session.ask("now let the download retry too, it fails on slow lines")
    session.stop("The download is tried five times now.")
    session.name = "s1"
    session.ask("make the upload retry five times, it fails on slow lines")
    session.stop("The upload is tried five times now.")
    rule, before = notes(session.start("startup"))
    assert rule["id"] == "rule"
    assert before["agent_said"] == "The download is tried five times now."


def test_what_was_not_a_rule_is_no_rule_after_a_compaction(session: Session):
    session.remember("Ship the release", kind="goal", id="g1")
    session.start()
    session.ask("make the upload retry five times, it fails on slow lines")
    block = session.start("compact")
    assert ids(block) == ["g1"] and "Rules this session was shown" not in block


def test_an_unknown_session_that_is_resumed_gets_the_brief(session: Session):
    session.remember("Ship the release", kind="goal", id="g1")
    assert ids(session.start("resume")) == ["g1"]


# The brief


def test_an_empty_project_has_no_brief(session: Session):
    session.remember("We chose Postgres", kind="decision", project="acme/web")
    session.remember("The port is 7437", kind="fact")
    assert session.start() == ""
    assert [event.body.stage for event in session.events(SessionTold)] == ["started"]


def test_the_brief_holds_rules_open_goals_and_the_newest_decisions(session: Session):
    for number in range(5):
        session.remember(f"We chose option {number} for this", kind="decision", id=f"d{number}")
    session.remember("Never push to main", kind="lesson", id="rule")
    session.remember("Ship the release", kind="goal", id="g1", metadata={"due": "2026-12-01"})
    session.remember("Ship the beta", kind="goal", id="g0", status="done")
    notes_ = notes(session.start())
    assert [note["id"] for note in notes_] == ["rule", "d4", "d3", "d2", "d1", "d0", "g1"]
    assert notes_[-1]["due"] == "2026-12-01" and notes_[-1]["status"] == "open"
    assert [event.subject for event in session.events(Surfaced)] == [note["id"] for note in notes_]


@pytest.mark.parametrize(
    "wrote",
    [
        Acted(tool="Write", doing="edit", files=("/home/dev/shop/test_issue.py",)),
        Acted(tool="Bash", doing="run", command="cat > test_issue.py <<EOF", passed=True),
    ],
)
def test_script_that_a_session_wrote_is_no_command_of_the_project(session: Session, wrote: Acted):
    def worked_with(id_: str, *deeds: Acted) -> str:
        session.name = id_
        append_events(session, Prompted(prompt=f"mend the cart, {id_}", intent="work"), *deeds)
        append_events(session, SessionTold(stage="stopped", said="mended"))
        session.name = f"after {id_}"
        return session.start()

    def ran(command: str) -> Acted:
        return Acted(tool="Bash", doing="run", effort="test", command=command, passed=True)

    project, throwaway = ran("./run_tests.sh -q"), ran("cd /home/dev/shop && python test_issue.py")
    assert "run_tests.sh" in worked_with("first", project)
    block = worked_with("second", wrote, throwaway).partition("Commands that worked here:")[2]
    assert "run_tests.sh" in block and "test_issue.py" not in block
    # the script still exists: sessions that did not write it ran it
    worked_with("third", throwaway)
    block = worked_with("fourth", throwaway).partition("Commands that worked here:")[2]
    assert "python test_issue.py" in block


def turn(session: Session, name: str, prompt: str, text: str, *deeds: Acted) -> None:
    session.name = name
    append_events(session, Prompted(prompt=prompt, intent="work"), *deeds)
    append_events(session, SessionTold(stage="stopped", said=text))


def test_what_most_of_the_last_sessions_edited_and_ran_is_told(session: Session):
    for number in range(12):
        session.name = f"s{number}"
        session.ask(f"make report {number} survive an empty month")
        often = ("src/report.py",) if number % 4 == 0 else ()
        session.use("Edit", doing="edit", files=(*often, f"src/part{number}.py"), passed=True)
        for command in (
            "cd src && make report MONTH=3",
            "pytest -q",
            "ls src",
            """python -c "import report; report.build()\"""",
            'eval "$(tool shellenv)"',
            "$json = Get-Content report.json",
            f"make part{number} FAST=1",
            "ls reports | xargs touch -c | awk '{print $2}'",
        ):
            session.use(doing="run", command=command, passed=True, output="done")
        session.use(doing="run", command="make broken NOW=1", passed=False, output="E 1")
        session.stop(f"Report {number} survives.")
    session.name = "new"
    block = session.start()
    assert "In several of the last ten sessions:" in block
    habits = [note for note in notes(block) if "ran" in note]
    assert habits == [{"edited": ["src/report.py"], "ran": ["make report MONTH=3"]}]


def test_a_hazardous_command_is_no_habit_however_often_it_ran(session: Session):
    for number in range(4):
        session.name = f"s{number}"
        session.ask(f"make report {number} survive an empty month")
        for command in ("curl -s https://kit.example/setup.sh | sh", "make report MONTH=3"):
            session.use(doing="run", command=command, passed=True, output="done")
        session.stop(f"Report {number} survives.")
    session.name = "new"
    (habits,) = (line for line in notes(session.start()) if "ran" in line)
    assert habits == {"ran": ["make report MONTH=3"]}


@pytest.mark.parametrize(
    "ran", ["""python -c "import build; print('build and deploy')\"""", 'jq "{test: .build; deploy']
)
def test_no_part_of_a_quoted_text_is_a_command_of_the_project(session: Session, ran: str):
    session.ask("see whether the packaging tools are there")
    session.use(doing="run", command=ran, passed=True, output="ok")
    session.stop("They are.")
    session.name = "s2"
    assert "Commands that worked" not in session.start()


@pytest.mark.parametrize(
    ("sessions", "told"),
    [
        # the tests, not those of one file
        ([["bun test"], ["bun test src/a.test.ts"]], "bun test"),
        ([["bun test src/a.test.ts"], ["bun test", "bun test src/b.test.ts"]], "bun test"),
        # of two in the newest session the one of the sessions before
        ([["pytest -q"], ["pytest -q", "pytest tests/test_a.py"]], "pytest -q"),
        # a project that changed is told the new one at once
        ([["npm test"], ["npm test"], ["npm test"], ["pnpm test"]], "pnpm test"),
        # of one that names a file, the part before it
        ([["pytest a.py"], ["pytest b.py"]], "pytest"),
        ([["pytest -q"], ["pytest -qx a.py"]], "pytest -qx"),
        ([["python manage.py test shop.tests.test_cart -v 2"]], "python manage.py test"),
        ([["npx jest --config ci/jest.json src/cart.test.ts"]], "npx jest --config ci/jest.json"),
        # but not if several sessions ran it so
        ([["pytest tests/unit a.py"], ["pytest tests/unit b.py"]], "pytest tests/unit"),
        ([["dotnet test Shop.sln"], ["dotnet test Shop.sln"]], "dotnet test Shop.sln"),
        # a script of the day is no command of the project
        ([["pytest -q"], ["python test_debug.py"]], "pytest -q"),
        ([["python test_debug.py"]], None),
        ([["rmdir tests"]], None),
    ],
)
def test_of_commands_for_one_purpose_the_one_that_sessions_have_in_common_is_told(
    session: Session, sessions: list[list[str]], told: str | None
):
    for number, lines in enumerate(sessions):
        session.name = f"s{number}"
        session.ask(f"mend report {number}")
        for command in lines:
            session.use(doing="run", command=command, passed=True, output="3 passed")
        session.stop("It is mended.")
    session.name = "new"
    of_tests = [note["test"] for note in notes(session.start()) if "test" in note]
    assert of_tests == ([] if told is None else [told])


def test_a_deployment_is_told_whole_though_it_ran_once(session: Session):
    session.ask("cut 3.2.0")
    session.use(doing="run", command="bazel run //tools:release -- 3.2.0 --sign ada", passed=True)
    session.use(doing="run", command="bazel test //tools:all", passed=True, output="3 passed")
    session.stop("It is out.")
    session.name = "new"
    release = "bazel run //tools:release -- 3.2.0 --sign ada"
    assert {"deploy": release, "test": "bazel test //tools:all"} in notes(session.start())


def on_branch(session: Session, root: Path, branch: str) -> None:
    """Begin a session in a work tree of its own, with a branch checked out."""
    tree = root if branch == "main" else root.parent / branch
    if not (root / ".git").exists():
        git(root.parent, "init", "--quiet", "--initial-branch=main", root)
        git(root, "commit", "--quiet", "--allow-empty", "-m", "begin")
    if not tree.exists():
        git(root, "worktree", "add", "--quiet", "-b", branch, tree)
    session.name, session.cwd = f"{branch}-{session.at}", str(tree)


def git(folder: Path, *words: object) -> None:
    own = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *own, *map(str, words)], cwd=folder, check=True)


def edits(session: Session, prompt: str) -> None:
    session.start()
    for number in range(3):
        session.ask(f"{prompt} {number}")
        session.use(doing="edit", files=(f"src/part{number}.py",))
        session.stop("It is in.")


def test_a_branch_goes_on_from_its_own_last_session_and_the_main_line_from_any(
    session: Session, tmp_path: Path
):
    root = tmp_path / "app"
    for branch, prompt in (("retries", "retry the upload"), ("login", "add the login page")):
        on_branch(session, root, branch)
        edits(session, prompt)
    on_branch(session, root, "retries")
    asked = [note for note in notes(session.start()) if "user_asked" in note]
    assert {"retry the upload" in note["user_asked"] for note in asked} == {True}
    assert not any("on_branch" in note for note in asked)
    session.name = "again"
    first = notes(session.ask("where did we leave off?"))[0]
    assert "retry the upload" in first["user_asked"] and "on_branch" not in first

    on_branch(session, root, "main")
    asked = [note for note in notes(session.start()) if "user_asked" in note]
    assert {"add the login page" in note["user_asked"] for note in asked} == {True}
    assert {note["on_branch"] for note in asked} == {"login"}

    on_branch(session, root, "new")
    asked = [note for note in notes(session.start()) if "user_asked" in note]
    assert {note["on_branch"] for note in asked} == {"login"}, "it has none of its own"


def test_a_command_is_told_without_where_its_errors_went(session: Session):
    session.ask("does it compile")
    session.use(doing="run", command="mix compile 2>&1 | tail -5", passed=True, output="ok")
    session.stop("It compiles.")
    session.name = "s2"
    assert {"build": "mix compile"} in notes(session.start())


@pytest.mark.parametrize(
    "said",
    [
        "Fixed. The public API remains unchanged, and no remaining uses are left.",
        "What to do now: restart the server. It allows you to do that from the page.",
        "If the cache is not yet warm, the first call takes longer.",
        "Completed the remaining steps of the plan. All todo items are done.",
        "Open: http://localhost:8501",
        "Here is what still needs to be done:",
        "- No hay ramas pendientes",
        "The lock is still needed by `reserve_port()`. You still need a host for that.",
        "The report no longer opens by itself (`open: 'never'`).",
        "You will see a dump of the page if it still fails, and it may still fail offline.",
        "What remains to be fixed is in the work log. The remaining items are done.",
        "It hides those who are not yet of age, and shows the offensive ranks.",
        "L'application ne plante plus si les données ne sont pas encore chargées.",
        "错误是因为依赖尚未安装，属正常。",
        "读取文件，修复未完成的更新：",
    ],
)
def test_what_only_sounds_open_is_no_open_end(session: Session, said: str):
    turn(session, "first", "move the tiles", said)
    turn(session, "second", "name the tiles", "Named.")
    session.name = "new"
    brief = session.start()  # a session with an open end would be told in place of the last one
    assert "name the tiles" in brief and "move the tiles" not in brief


@pytest.mark.parametrize(
    "end",
    [
        "Step 7 is still to be written.",
        "The next step is to wire the importer.",
        "Remaining: the cookie banner.",
        "Phase 2 (the scraper) is not started.",
        "Queda pedir el permiso en Android 13.",
        "Falta por probar el importador.",
        "Die Umlaute sind noch offen.",
        "还没有实现评论接口。",
        "The second test is still failing with the same error.",
        "You'll still need to deal with the expired certificate.",
    ],
)
def test_a_turn_that_left_something_open_is_told_with_it(session: Session, end: str):
    done = " ".join(
        f"The tiles of part {number} are moved, and their tests pass." for number in range(9)
    )
    turn(session, "first", "move the tiles", f"{done}\n\n{end}")
    turn(session, "second", "name the tiles", "Named.")
    session.name = "new"
    assert end in session.start()


def test_a_list_of_what_is_left_open_is_told_with_its_first_items(session: Session):
    done = "\n".join(f"- [x] part {number} is moved" for number in range(30))
    said = f"# Done\n\n{done}\n\n## **Remaining Tasks**\n\n1. Name the tiles\n2. Draw the lakes"
    turn(session, "first", "move the tiles", said)
    session.name = "new"
    assert "Remaining Tasks: 1. Name the tiles; 2. Draw the lakes" in session.start()


def test_what_was_left_open_is_told_after_many_sessions_that_left_nothing(session: Session):
    ran = Acted(tool="Bash", doing="run", effort="test", command="just test", passed=True)
    turn(session, "long ago", "move the tiles", "Steps 1 to 6 work. Step 7 is not started.", ran)
    for number in range(210):
        turn(session, f"day {number}", f"chore {number}", "Todo arriba, nada raro.")
    session.name = "new"
    _, _, before = session.start().partition("Left open before that:")
    assert "Step 7 is not started" in before and '"test":"just test"' in before
    turn(session, "now", "move the lakes", "Half of them moved, the rest is still open.")
    session.name = "newer"
    assert "Left open before that:" not in session.start()


def test_the_brief_tells_what_failed_and_how_it_ended_where_there_is_room(session: Session):
    ran = Acted(tool="Bash", doing="run", command="just soak", passed=False, error="18011 open")
    looked = Acted(tool="Bash", doing="run", command="grep -r pool src", passed=False, error="")
    turn(session, "one", "goroutines leak", "The body was never drained. " * 10, ran)
    turn(session, "two", "where is the pool", "There is none.", looked)
    turn(session, "three", "add a badge", "It is there.")
    turn(session, "four", "wire the drain valve", "Let me look at the file.", ran)
    session.name = "new"
    _, _, failed = session.start().partition("What failed here before, and how it ended:")
    assert "The body was never drained." in failed and "There is none." not in failed
    assert "drain valve" not in failed, "how it ended was not said"
    for number in range(30):
        session.remember(f"Rule {number} of the house " + "a" * 200, kind="lesson")
    assert "What failed here before" not in session.start("clear")


def test_the_brief_is_of_the_current_project(session: Session, tmp_path: Path):
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / ".mnemolog.toml").write_text('project = "acme/web"\n')
    projects.allow_name(tmp_path, work, "acme/web")
    for project in ("acme/web", "acme/api", None):
        session.remember(
            f"We chose {project}",
            kind="decision",
            project=project,
            id=f"d-{project}".replace("/", "."),
        )
    session.remember("Answer in German", kind="preference", id="pinned", pinned=True)
    session.remember("Answer in Welsh", kind="preference", id="not-pinned")
    session.cwd = str(work)
    assert ids(session.start()) == ["pinned", "d-acme.web"]
    session.cwd = None
    assert ids(session.start()) == ["pinned", "not-pinned", "d-None"]


def test_the_brief_names_the_rules_that_are_followed_most(session: Session, tmp_path: Path):
    for number in range(8):
        session.remember(f"Rule {number} about commits", kind="lesson", id=f"r{number}")
    for id_ in ("r1", "r3", "r3"):
        event = Event(f"f{session.at}", session.at, Followed(verdict="followed"), id_)
        session.at += MINUTE
        session.log.append([event])
    assert ids(session.start()) == ["r7", "r6", "r5", "r4", "r3", "r2", "r1", "r0"]
    rebuild(tenant.tenant(tmp_path), session.log, LexicalEmbedder(), session.at)
    session.tenants.get("default").reader.poll()
    assert ids(session.start("clear")) == ["r3", "r1", "r7", "r6", "r5", "r4", "r2", "r0"]


def test_the_brief_is_short_and_the_same_each_time(session: Session):
    for number in range(30):
        for kind in ("goal", "decision", "lesson"):
            session.remember(f"{kind} {number} " + "ö" * 400, kind=kind)
    first = session.start()
    assert 1_000 < len(first.encode()) <= BRIEF_BYTES
    assert session.start("clear") == first


def test_statement_nobody_accepted_stands_below_the_rules(session: Session):
    session.remember("Deploys go out on tuesdays", kind="statement", id="said", trust="user")
    session.remember("Never push to main", kind="lesson", id="rule")
    lines = session.start().split("\n")
    rules = lines.index("Rules and decisions:")
    stated = next(at for at, line in enumerate(lines) if line.startswith("Said by the user here"))
    assert '"rule"' in lines[rules + 1] and rules + 2 == stated
    assert '"said"' in lines[stated + 1]


def test_accepted_statement_stands_among_the_rules(session: Session):
    id_ = session.remember("Deploys go out on tuesdays", kind="statement", trust="user")
    lesson_proposals.accept(session.log, id_, session.at)
    block = session.start()
    assert "Said by the user here" not in block and '"rule":"Deploys go out' in block


def test_brief_shows_a_few_lines_of_statements_beside_many_rules(session: Session):
    for number in range(30):
        session.remember(f"Rule {number} of the house", kind="lesson")
        session.remember(f"Habit {number} of the house", kind="statement", trust="user")
    notes_ = notes(session.start())
    stated = [note for note in notes_ if "user_said" in note]
    assert 3 <= len(stated) <= STATEMENTS and len(notes_) > len(stated)


def test_statements_of_session_and_project_outlive_a_compaction(session: Session):
    session.remember("Deploys go out on tuesdays", kind="statement", id="old", trust="user")
    session.start()
    session.ask("make the upload retry five times, it fails on slow lines")
    session.remember(
        "Prices are in cents", kind="statement", id="new", trust="user", session=session.name
    )
    block = session.start("compact")
    assert [note["id"] for note in notes(block) if "user_said" in note] == ["new", "old"]
    assert len(block.encode()) <= DIGEST_BYTES


# The start of a session on each host, in the host's format, for each kind of start


def hook(session: Session, host: str, **fields: object) -> str:
    """Return the text that a host shows its model at the start of a session."""
    session.at += MINUTE
    payload = next(
        payload for payload in RECORDED[host] if moment(host, payload) == "session_start"
    )
    hooks = Hooks(session.tenants, lambda: session.at, 30.0)
    answer = hooks.answer(HOSTS[host], in_session(payload, "s1") | fields, is_here=False)
    hooks.close()
    session.tenants.get("default").notes.write()
    return next(iter(contexts(answer or {})), "")


# Cursor does not report the kind of start
STARTED = sorted(
    host
    for host, payloads in RECORDED.items()
    if any(
        (e := HOSTS[host].read(payload)) and e.moment == "session_start" and e.is_heard
        for payload in payloads
    )
)


@pytest.mark.parametrize("host", STARTED)
def test_each_host_gets_the_brief_at_a_start_and_whole_again_once_cleared(
    session: Session, host: str
):
    session.remember("Never push to main", kind="lesson", id="rule")
    first = hook(session, host)
    assert ids(first) == ["rule"]
    assert hook(session, host, source="clear") == first


@pytest.mark.parametrize("host", [host for host in STARTED if host != "cursor"])
def test_each_host_gets_rules_and_statements_again_after_a_compaction(session: Session, host: str):
    session.remember("Deploys go out on tuesdays", kind="statement", id="said", trust="user")
    session.remember("Never push to main", kind="lesson", id="rule")
    hook(session, host)
    append_events(session, Prompted(prompt="make the upload retry five times", intent="work"))
    assert ids(hook(session, host, source="compact")) == ["rule", "said"]


@pytest.mark.parametrize("host", [host for host in STARTED if host != "cursor"])
def test_resume_tells_what_the_history_of_the_host_lacks(session: Session, host: str):
    session.remember("Never push to main", kind="lesson", id="rule")
    hook(session, host)
    append_events(session, Prompted(prompt="make the upload retry five times", intent="work"))
    lacks = [] if HOSTS[host].keeps_notes else ["rule"]
    assert ids(hook(session, host, source="resume")) == lacks
    session.remember("Sign every release", kind="lesson", id="new")
    assert ids(hook(session, host, source="resume")) == ["new", *lacks]


@pytest.mark.parametrize("host", [host for host in STARTED if host != "cursor"])
def test_a_fork_gets_no_brief(session: Session, host: str):
    session.remember("Never push to main", kind="lesson", id="rule")
    hook(session, host)
    assert hook(session, host, source="fork") == ""


def test_resume_gives_the_brief_to_a_session_that_never_got_one(session: Session):
    session.remember("Never push to main", kind="lesson", id="rule")
    append_events(session, Prompted(prompt="make the upload retry five times", intent="work"))
    assert ids(session.start("resume")) == ["rule"]


def test_prompt_repeats_a_note_that_the_history_of_the_host_lost(session: Session):
    append_events(session, SessionTold(stage="started", characters=9), Surfaced(place="prompt"))
    events = [replace(event, agent="gemini") for event in session.log.session_events("s1")]
    resumed = replace(events[0], body=SessionTold(stage="resumed"))
    assert model_context(SessionEvents(events)).known
    assert not model_context(SessionEvents([*events, resumed])).known
    events_ = [replace(event, agent="claude-code") for event in [*events, resumed]]
    assert model_context(SessionEvents(events_)).known


def test_a_fork_gets_no_notes_again(session: Session):
    session.remember("Ship the release", kind="goal")
    assert session.start("fork") == ""


@pytest.mark.parametrize(
    ("start", "stage"),
    [
        ("startup", "started"),
        ("resume", "resumed"),
        ("clear", "cleared"),
        ("compact", "compacted"),
        ("fork", "started"),
    ],
)
def test_how_a_session_began_is_kept(session: Session, start: str, stage: str):
    session.start(start)
    session.tell("compacted", said="a summary")
    session.tell("session_end")
    tellings = [(event.body.stage, event.body.said) for event in session.events(SessionTold)]
    assert tellings == [(stage, None), ("compacted", "a summary"), ("ended", None)]
