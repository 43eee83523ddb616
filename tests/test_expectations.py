"""Pinned questions: each must return its memory, and every build asks them again."""

import msgspec
import pytest
from click.testing import CliRunner

from pipelines.jobs import runner
from serve.cli import main
from serve.evaluation.expectations import ask, expect, list_expectations
from serve.reader.reader import open_view
from store.home.config import Choices, Settings
from store.home.errors import InvalidInput, NotFound
from store.log import commands, erasing
from store.log.commands import Draft
from store.maintenance.checkup import checkup
from store.snapshots.manifest import EXPECTED, CheckResult

NOW = 1_790_000_000_000_000
QUESTION = "how many times are uploads retried?"
UPLOADS = "m06"  # "Retry uploads with exponential backoff, at most five times ...", forgotten


@pytest.fixture
def pinned(built) -> str:
    commands.restore(built.log, UPLOADS, NOW)
    expect(built.log, QUESTION, UPLOADS, None, NOW)
    return UPLOADS


def ranks(built, **settings: object) -> list[int | None]:
    view = open_view(built.tenant, built.rebuild(), built.embedder)
    expectations = list_expectations(built.log)
    choices = msgspec.structs.replace(Choices(), **settings)
    return [outcome.rank for outcome in ask(view, expectations, choices, NOW)]


def built_check(home, built) -> CheckResult:
    manifest = runner.build(Settings(home), built.tenant.name, lambda what: None)
    return next(check for check in manifest.checks if check.name == EXPECTED)


def test_a_pin_is_kept_once_and_can_be_removed(built):
    before = built.log.head()
    for _ in range(2):
        expectation = expect(built.log, f"  {QUESTION}\n", "m05", "acme/web", NOW)
    assert list_expectations(built.log) == [expectation] and built.log.head() == before + 1
    with pytest.raises(NotFound, match="mnemolog expect"):
        expect(built.log, QUESTION, "m05", None, NOW, expected=False)
    expect(built.log, QUESTION, "m05", "acme/web", NOW, expected=False)
    assert list_expectations(built.log) == []


def test_a_pin_needs_a_question_and_a_memory(built):
    with pytest.raises(InvalidInput):
        expect(built.log, " ", "m05", None, NOW)
    with pytest.raises(NotFound):
        expect(built.log, QUESTION, "nowhere", None, NOW)


def test_a_memory_that_superseded_the_expected_one_counts(built, pinned):
    assert ranks(built) == [1]
    commands.record(built.log, Draft(id="new", content="Retry uploads at most nine times"), NOW)
    commands.supersede(built.log, pinned, "new", NOW)
    assert ranks(built) == [1]
    commands.forget(built.log, "new", NOW)
    assert ranks(built) == [None]


def test_a_setting_that_hides_the_answer_fails_it(built, pinned):
    assert ranks(built, min_confidence=1.0) == [None]


def test_erasing_the_memory_takes_the_question_with_it(built, pinned):
    erasing.erase(built.log, [pinned], NOW)
    assert list_expectations(built.log) == []
    assert QUESTION not in built.tenant.log.read_bytes().decode("utf-8", "replace")


def test_a_build_names_a_failed_question_with_its_fix_and_is_served(built, pinned, home):
    assert built_check(home, built).passed
    commands.forget(built.log, pinned, NOW)
    check = built_check(home, built)
    assert not check.passed and check.warns and QUESTION in check.detail
    assert f"mnemolog bisect '{QUESTION}' --expect {pinned} --all-projects" in check.cure
    (found,) = (finding for finding in checkup(Settings(home)) if "pinned" in finding.what)
    assert (found.severity, found.cure) == ("warn", check.cure)


def test_the_command_pins_lists_and_fails_where_one_is_missing(built, home):
    def run(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["--home", str(home), "expect", *words])
        return result.exit_code, result.stdout

    assert run() == (0, 'no question is pinned. Pin one: `mnemolog expect "QUESTION" ID`\n')
    code, text = run("where is staging?", "m13", "--all-projects")
    assert code == 0 and "where is staging?" in text and "m13" in text
    commands.forget(built.log, "m13", NOW)
    code, text = run("--json")
    assert code == 1 and msgspec.json.decode(text)["expected"][0]["rank"] is None
    assert "missing" in run()[1]
    assert run("where is staging?", "m13", "--all-projects", "--remove")[0] == 0
    assert run("where is staging?")[0] == 2
