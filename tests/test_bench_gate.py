"""The gate of `make bench-gate` fails for a slower version and for nothing else."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("bench_on_path")

# milliseconds of one version compared with itself, recorded by the gate on a busy machine: of a
# recall over HTTP, and of `mnemolog recall`
CLEAN = [
    (4.04, 4.14),
    (5.52, 5.63),
    (6.04, 5.98),
    (4.18, 4.05),
    (5.49, 5.45),
    (4.09, 3.87),
    (4.35, 4.19),
    (5.59, 5.42),
    (6.8, 6.58),
    (5.57, 6.4),
    (6.21, 5.56),
    (5.95, 6.57),
]
NOISY = [
    (190.8, 186.3),
    (261.42, 255.57),
    (278.94, 241.41),
    (242.83, 185.49),
    (249.03, 178.2),
    (198.21, 181.19),
    (186.58, 189.02),
    (240.85, 275.86),
    (262.82, 262.75),
    (236.41, 212.88),
    (215.93, 236.36),
    (218.6, 206.63),
]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    commands = (
        "init --quiet .",
        "config user.name A",
        "config user.email a@example.test",
        "commit --quiet --allow-empty --message one",
    )
    for command in commands:
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    return tmp_path


def slower(pairs: list[tuple[float, float]], times: float) -> list[tuple[float, float]]:
    return [(ours * times, theirs) for ours, theirs in pairs]


@pytest.mark.parametrize("pairs", [CLEAN, NOISY], ids=["clean", "noisy"])
def test_a_version_is_not_slower_than_itself(pairs: list[tuple[float, float]]) -> None:
    from gate import judge

    row = judge("recall", pairs)
    assert row.low <= 1.0 <= row.high
    assert not row.is_slower


@pytest.mark.parametrize("pairs", [CLEAN, NOISY], ids=["clean", "noisy"])
def test_a_version_that_takes_1_3_times_as_long_is_slower(pairs: list[tuple[float, float]]) -> None:
    from gate import judge

    row = judge("recall", slower(pairs, 1.3))
    assert row.is_slower
    assert row.low <= row.ratio <= row.high


def test_a_faster_version_is_not_slower() -> None:
    from gate import judge

    assert not judge("recall", slower(CLEAN, 0.7)).is_slower


def test_one_disturbed_turn_does_not_fail_the_gate() -> None:
    from gate import judge

    assert not judge("recall", [(9.0, 1.0), (5.0, 1.0), *CLEAN[2:]]).is_slower


def test_a_ratio_above_the_limit_with_an_interval_across_it_does_not_fail_the_gate() -> None:
    from gate import LIMIT, judge

    row = judge("recall", [(ratio, 1.0) for ratio in (1.0, 1.05, 1.08, 1.12, 1.15, 1.2, 1.3)])
    assert row.ratio > LIMIT > row.low
    assert not row.is_slower


def test_the_interval_covers_the_median_in_95_of_100_samples() -> None:
    from gate import judge

    chance = random.Random(5)
    samples = [
        judge("recall", [(chance.lognormvariate(0.0, 0.2), 1.0) for _ in range(12)])
        for _ in range(2_000)
    ]
    covered = sum(row.low <= 1.0 <= row.high for row in samples) / len(samples)
    assert covered >= 0.95
    twelve = judge("recall", [(float(number), 1.0) for number in range(1, 13)])
    assert (twelve.low, twelve.high) == (3.0, 10.0)  # the ranks of published tables


def test_five_pairs_are_too_few() -> None:
    from gate import judge

    with pytest.raises(ValueError, match="5 pairs are too few"):
        judge("recall", CLEAN[:5])


def test_a_row_that_the_other_version_cannot_do_is_left_out(tmp_path: Path) -> None:
    from gate_rows import Comparison, Version

    this, other = (Version(name, tmp_path, tmp_path / name) for name in ("this", "other"))

    def new(version: Version, turn: int) -> float:
        if version is other:
            sys.exit("no such command")
        return 1.0

    versions = Comparison(this, other)
    versions.take_turns({"old": lambda version, turn: 1.0 + turn, "new": new}, range(4))
    assert versions.pairs == {"old": [(2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]}
    assert versions.left_out == ["new"]
    swapped = Comparison(other, this)
    with pytest.raises(SystemExit, match="no such command"):
        swapped.take_turns({"new": new}, range(4))


def test_versions_take_turns(tmp_path: Path) -> None:
    from gate_rows import Comparison, Version

    order = []

    def row(version: Version, turn: int) -> float:
        order.append(version.name)
        return 1.0

    this, other = (Version(name, tmp_path, tmp_path / name) for name in ("A", "B"))
    Comparison(this, other).take_turns({"recall": row}, range(1, 5))
    assert "".join(order) == "ABBAABBA"


def test_a_process_with_the_code_of_another_folder_is_refused(tmp_path: Path) -> None:
    from gate_rows import Version

    (tmp_path / "serve" / "program").mkdir(parents=True)
    with pytest.raises(SystemExit, match=r"store is not that of .* but "):
        Version("other", tmp_path, tmp_path / "home").run("--help")


def test_the_page_gets_the_table_and_the_next_run_reads_its_commit(repository: Path) -> None:
    from gate import BEGIN, END, PAGE, base, judge, report, rewrite
    from gate_rows import Comparison, Version

    this = Version("1a2b3c4d", repository, repository)
    versions = Comparison(this, Version("5e6f7a8b", repository, repository))
    versions.left_out.append("hybrid recall")
    rows = [judge("recall", slower(CLEAN, 1.3)), judge("import", CLEAN)]
    table = report(rows, versions, "`5e6f7a8b`")
    assert [line.endswith("| **slower** |") for line in table.splitlines()[4:6]] == [True, False]
    assert "Left out, as `5e6f7a8b` cannot do it: hybrid recall." in table
    page = rewrite(PAGE.read_text(), table)
    assert page.count(table) == 1
    assert rewrite(page, table) == page
    assert rewrite(rewrite(page, "another"), table) == page
    assert base(repository, page, None) == "1a2b3c4d"
    outside = (PAGE.read_text().partition(BEGIN)[0], PAGE.read_text().partition(END)[2])
    assert (page.partition(BEGIN)[0], page.partition(END)[2]) == outside


def test_a_page_without_its_marks_is_refused() -> None:
    from gate import BEGIN, END, NotComparable, rewrite

    for page in ("", BEGIN, END, END + BEGIN, BEGIN + END + END):
        with pytest.raises(NotComparable, match="once each"):
            rewrite(page, "table")


def test_the_other_version_is_named_by_hand_by_tag_or_by_page(repository: Path) -> None:
    from gate import BEGIN, NotComparable, base

    page = f"Commit `ffffffff`\n{BEGIN}\n\nCommit `1a2b3c4d` on 2026-11-27, compared with `5e6f`."
    with pytest.raises(NotComparable, match="AGAINST=COMMIT"):
        base(repository, "", None)
    assert base(repository, page, None) == "1a2b3c4d"
    commit = "commit --quiet --allow-empty --message"
    for command in (
        *("tag v0.9.0", "tag v0.10.0", "tag v0.10.0-rc1", "tag other"),
        *("checkout --quiet -b elsewhere", f"{commit} two", "tag v0.12.0", "checkout --quiet -"),
        *(f"{commit} three", "tag v0.11.0"),  # the version being measured
    ):
        subprocess.run(["git", *command.split()], cwd=repository, check=True)
    assert base(repository, page, None) == "v0.10.0"
    assert base(repository, page, "HEAD~3") == "HEAD~3"


def test_the_worktree_is_removed_even_when_a_measurement_fails(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from gate import git, worktree

    folder = tmp_path_factory.mktemp("other") / "code"
    with pytest.raises(SystemExit), worktree(repository, "HEAD", folder) as code:
        assert (code / ".git").exists()
        raise SystemExit("failed")
    assert not folder.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_commit_that_the_clone_does_not_have_is_named_with_a_fix(
    repository: Path, tmp_path: Path
) -> None:
    from gate import NotComparable, worktree

    with (
        pytest.raises(NotComparable, match=r"does not have 1a2b3c4d: `git fetch --unshallow"),
        worktree(repository, "1a2b3c4d", tmp_path / "code"),
    ):
        pass


@pytest.mark.parametrize("times", [1.0, 1.3])
def test_a_slower_version_is_not_written_down_as_what_the_next_is_compared_with(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, times: float, monkeypatch
) -> None:
    import gate

    page = tmp_path_factory.mktemp("docs") / "benchmarks.md"
    before = gate.PAGE.read_text()
    page.write_text(before)
    (repository / "store").mkdir()
    (repository / "store" / "log.py").write_text("")
    for command in ("add .", "commit --quiet --message two"):
        subprocess.run(["git", *command.split()], cwd=repository, check=True)
    monkeypatch.setattr(gate, "ROOT", repository)
    monkeypatch.setattr(gate, "PAGE", page)
    monkeypatch.setattr(
        gate,
        "measure",
        lambda versions, _: versions.pairs.update(recall=slower(CLEAN, times)),
    )
    (row,) = gate.compare("HEAD", is_written=True)
    assert row.is_slower is (page.read_text() == before) is (times > 1)
