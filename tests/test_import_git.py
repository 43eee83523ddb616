"""Git history becomes memories of why; real repositories, read by the real git."""

import os
import subprocess
from itertools import islice
from pathlib import Path

import pytest

from store.home.errors import SourceError
from store.importers import git
from store.log.commands import Draft

DAY = 86_400
START = 1_788_000_000


class Repository:
    """A throwaway repository; each commit is a minute after the last."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, START
        path.mkdir()
        self.git("-c", "init.defaultBranch=main", "init", "-q")

    def git(self, *words: str, author: str = "Ada", stdin: bytes | None = None) -> None:
        names = {f"GIT_{role}_NAME": author for role in ("AUTHOR", "COMMITTER")}
        mails = {f"GIT_{role}_EMAIL": "ada@example.com" for role in ("AUTHOR", "COMMITTER")}
        dates = {f"GIT_{role}_DATE": f"{self.at} +0200" for role in ("AUTHOR", "COMMITTER")}
        config = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        environment = {"PATH": os.environ["PATH"], **names, **mails, **dates, **config}
        command = ["git", "-C", str(self.path), *words]
        subprocess.run(command, env=environment, input=stdin, check=True, capture_output=True)

    def commit(self, text: str | bytes, *files: str, author: str = "Ada") -> None:
        self.at += 60
        for name in files:
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{self.at}\n" * 3)
        self.git("add", "-A")
        raw = text.encode() if isinstance(text, str) else text
        self.git("commit", "-q", "--allow-empty", "-F", "-", author=author, stdin=raw)

    def drafts(self, **options: object) -> list[Draft]:
        return list(git.drafts(self.path, project="demo", **options))  # type: ignore[arg-type]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_a_commit_becomes_subject_why_and_files(repository):
    repository.commit("Writers take the lock up front\n\nAn upgrade is BUSY.", "store/log.py")
    (draft,) = repository.drafts()
    assert draft.content == (
        "Writers take the lock up front\n\nAn upgrade is BUSY.\n\nFiles: store/log.py"
    )
    assert (draft.source, draft.project, draft.tags) == ("git", "demo", ("store",))
    assert draft.created_at is not None and draft.created_at.timestamp() == START + 60
    assert draft.metadata["insertions"] == 3 and len(draft.metadata["commit"]) == 12


def test_reading_twice_gives_the_same_ids(repository):
    for number in range(5):
        repository.commit(f"Add the reader of part {number}", "a.py")
    first, second = repository.drafts(), repository.drafts()
    assert first == second
    assert len({draft.id for draft in first}) == 5


def test_the_author_is_named_without_an_address(repository):
    repository.commit("Add the reader of parts", "a.py", author="Grace")
    (draft,) = repository.drafts()
    assert draft.created_by == "Grace"
    assert "example.com" not in repr(draft)


@pytest.mark.parametrize(
    "text",
    [
        "wip", "WIP: more of it", "fix typo", "fmt", "Bump version to 1.2.3", "v1.2.3", "1.4.0",
        "release 2.0", "Update README.md", "fixup! Add the reader", "squash! Add the reader",
        "Bump lodash from 4.1.0 to 4.1.1\n\nBumps lodash.\n\nRelease notes ...",
        "chore(deps): bump ruff from 0.1 to 0.2\n\nnotes", "address review comments", "cleanup",
        "chore: tidy the imports", "style: format with ruff", "more fixes", "lint", "Updated",
        "Rebuild the docs [skip ci]", "Initial commit", "Fix tests", "minor changes",
    ],
)  # fmt: skip
def test_noise_makes_no_memory(text):
    assert git.is_noise(git.parse_message(text), "Ada")


@pytest.mark.parametrize(
    "text",
    [
        "Fix the deadlock of two writers", "Add BM25", "Update the reader to swap manifests",
        "cleanup\n\nThe old reader held the manifest open for ever.", "修复登录崩溃",
        "build: switch to hatchling", "Release the lock before the fsync",
        "fix(log): take the lock up front",
        "Save the manifest before HEAD", "Format dates as ISO 8601 in UTC",
        "Bump the page size to 8192 for faster scans",
    ],
)  # fmt: skip
def test_what_says_something_is_kept(text):
    assert not git.is_noise(git.parse_message(text), "Ada")


def test_commits_of_bots_make_no_memory(repository):
    repository.commit("Use the newest ruff everywhere", "a", author="renovate[bot]")
    assert repository.drafts() == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("fix: wrong order of hits", "bugfix"),
        ("Crash on an empty log", "bugfix"),
        ('Revert "Cache the manifest"\n\nThis reverts commit abc.', "bugfix"),
        ("Store vectors in Lance instead of SQLite", "decision"),
        ("feat!: ids are ULIDs", "decision"),
        ("refactor: split reader\n\nBREAKING CHANGE: Reader.open moved.", "decision"),
        ("Readers map files\n\nWe decided against copying.", "decision"),
        ("feat: fixed-width columns", "activity"),
        ("Add the tail\n\nIt lies over the manifest.", "context"),
    ],
)
def test_the_kind_follows_from_the_words(text, kind):
    assert git.kind_of_message(git.parse_message(text)) == kind


def test_trailers_and_generated_lines_go_and_references_stay():
    read = git.parse_message(
        "Fix the order of hits\n\nTies were random.\n> quoted mail\n\n* wip\n\nFixes #12\n"
        "Signed-off-by: A <a@x.org>\nCo-authored-by: B <b@x.org>\nChange-Id: I123\n"
        "Reviewed-by: C <c@x.org>\n(cherry picked from commit abc)\n"
        "🤖 Generated with [Claude Code](https://claude.ai/code)\n"
    )
    assert read.why == "Ties were random.\n\nFixes #12"


def test_a_long_body_is_cut_at_a_paragraph():
    body = "\n\n".join(f"Paragraph {number}. " + "word " * 60 for number in range(9))
    why = git.parse_message(f"Explain it\n\n{body}").why
    assert len(why) <= git.MAX_WHY + 4
    assert why.endswith("word ...")


def test_a_scope_is_a_tag_before_the_folder(repository):
    repository.commit("feat(recall): weigh by age", "src/serve/recall.py")
    repository.commit("Weigh recalls by their age", "src/serve/recall.py")
    assert [draft.tags for draft in repository.drafts()] == [("recall",), ("serve",)]


def test_merge_commits_without_a_body_make_no_memory(repository):
    _branch(repository, "Add the tail reader")
    repository.git("merge", "-q", "--no-ff", "side", "-m", "Merge branch 'side'")
    assert [draft.content.split("\n")[0] for draft in repository.drafts()] == [
        "Add the log file", "Add the tail reader"
    ]  # fmt: skip


def test_a_merged_pull_request_is_known_by_its_title(repository):
    _branch(repository, "Add the tail reader")
    text = "Merge pull request #7 from ada/side\n\nReaders see the tail\n\nNo build is needed."
    repository.git("merge", "-q", "--no-ff", "side", "-m", text)
    assert repository.drafts()[-1].content == "Readers see the tail\n\nNo build is needed."


def test_a_merge_that_repeats_its_commit_makes_no_memory(repository):
    _branch(repository, "Add the tail reader")
    text = "Merge pull request #7 from ada/side\n\nAdd the tail reader"
    repository.git("merge", "-q", "--no-ff", "side", "-m", text)
    assert len(repository.drafts()) == 2


def _branch(repository: Repository, text: str) -> None:
    repository.commit("Add the log file", "a.py")
    repository.git("checkout", "-qb", "side")
    repository.commit(text, "b.py")
    repository.git("checkout", "-q", "main")


def test_bytes_that_are_no_utf_8_are_replaced(repository):
    text = b"Sort the caf\xe9 names"  # git itself would mend a commit made by `git commit`
    repository.git("fast-import", "--quiet", stdin=_import(text, b"n\xe9.py"))
    (draft,) = repository.drafts()
    assert draft.content == "Sort the caf\ufffd names\n\nFiles: n\ufffd.py"


def _import(text: bytes, name: bytes) -> bytes:
    head = b"commit refs/heads/main\ncommitter Ada <a@x.org> 1788000000 +0000\n"
    return head + b"data %d\n%s\nM 644 inline %s\ndata 1\n1\n" % (len(text), text, name)


def test_a_declared_encoding_is_understood(repository):
    repository.git("config", "i18n.commitEncoding", "ISO-8859-1")
    repository.commit(b"Sort the caf\xe9 names", "a.py")
    assert repository.drafts()[0].content.startswith("Sort the café names")


def test_a_renamed_file_is_known_by_its_new_name(repository):
    repository.commit("Add the log file", "old name.py", "naïve\ttab.py")
    repository.git("mv", "old name.py", "new name.py")
    repository.commit("Move the log where it belongs")
    assert repository.drafts()[0].metadata["files"] == ["naïve\ttab.py", "old name.py"]
    assert repository.drafts()[1].metadata["files"] == ["new name.py"]


def test_files_are_few_and_generated_ones_come_last(repository):
    repository.commit("Add the parts of it", "uv.lock", *(f"part{n}.py" for n in range(9)))
    content = repository.drafts()[0].content
    assert content.endswith("part5.py (+4 more)")
    assert "uv.lock" not in content


def test_an_empty_repository_gives_nothing(repository):
    assert repository.drafts() == []


def test_limit_and_since_take_the_newest(repository):
    repository.commit("Add the first part", "a.py")
    repository.at += 30 * DAY
    repository.commit("Add the second part", "a.py")
    assert [d.content[:14] for d in repository.drafts(limit=1)] == ["Add the second"]
    assert len(repository.drafts(since=f"@{START + DAY}")) == 1


def test_a_folder_that_is_no_repository_is_named(tmp_path):
    with pytest.raises(SourceError, match=r"is not a git repository: name a folder"):
        list(git.drafts(tmp_path, project=None))
    with pytest.raises(SourceError, match=r"gone is not a folder"):
        list(git.drafts(tmp_path / "gone", project=None))


def test_a_broken_repository_says_what_git_said(repository):
    repository.commit("Add the first part", "a.py")
    (repository.path / ".git/refs/heads/main").write_text("0" * 39 + "1\n")
    with pytest.raises(SourceError, match="git cannot read"):
        repository.drafts()


def test_the_project_is_found_from_the_remote(repository):
    repository.commit("Add the first part", "a.py")
    repository.git("remote", "add", "origin", "git@example.com:ada/demo.git")
    (draft,) = git.drafts(repository.path, project=None)
    assert draft.project == "example.com/ada/demo"


def test_a_reader_may_stop_early(repository):
    for number in range(30):
        repository.commit(f"Add the reader of part {number}", "a.py")
    assert len(list(islice(git.drafts(repository.path, project=None), 2))) == 2


def test_five_thousand_commits_are_read_to_the_last(repository):
    stream = "".join(
        f"commit refs/heads/main\ncommitter Ada <a@x.org> {START + n} +0000\n"
        f"data {len(text)}\n{text}\nM 644 inline src/part{n % 50}.py\ndata 8\n{n:07d}\n\n"
        for n, text in ((n, f"Explain part {n:05d}\n\nBecause of it.") for n in range(5_000))
    )
    repository.git("fast-import", "--quiet", stdin=stream.encode())
    assert len(repository.drafts()) == 5_000


@pytest.mark.parametrize(
    ("url", "setting"),
    [("ext::PROGRAM %S", "protocol.ext.allow"), ("ssh://nowhere/x", "core.sshCommand")],
)
def test_what_a_partial_clone_lacks_is_not_fetched(tmp_path: Path, url: str, setting: str):
    ran, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    program.chmod(0o700)
    repository = Repository(tmp_path / "partial")
    repository.commit("Read the clock once, so that midnight changes nothing", "a.py")
    for key, value in (
        ("extensions.partialClone", "origin"),
        ("core.repositoryFormatVersion", "1"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", url.replace("PROGRAM", str(program))),
        (setting, "always" if setting.startswith("protocol") else str(program)),
    ):
        repository.git("config", key, value)
    for path in (repository.path / ".git" / "objects").glob("??/*"):
        kind = subprocess.run(
            ["git", "-C", str(repository.path), "cat-file", "-t", path.parent.name + path.name],
            capture_output=True,
        )
        if kind.stdout.strip() == b"blob":
            path.unlink()
    with pytest.raises(SourceError, match="partial clone"):
        repository.drafts()
    assert not ran.exists()


def test_a_message_of_any_length_is_read_up_to_a_bound(tmp_path: Path):
    repository = Repository(tmp_path / "long")
    repository.commit(b"Say it at length\n\n" + b"word " * (3 * git.MAX_FIELD // 5))
    (found,) = git.commits(repository.path, since=None, limit=None)
    assert len(found.text) == git.MAX_FIELD
