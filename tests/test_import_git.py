"""Git history becomes memories of reasons; real repositories, read by the real git."""

import os
import subprocess
from itertools import islice
from pathlib import Path

import pytest

from store.home.errors import SourceError
from store.importers import git, git_command, git_message
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

    def sha(self, name: str = "HEAD") -> str:
        command = ["git", "-C", str(self.path), "rev-parse", name]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def loose_object(self, name: str) -> Path:
        sha = self.sha(name)
        return self.path / ".git" / "objects" / sha[:2] / sha[2:]

    def merge(self, text: str, *messages: str, into: str = "main") -> None:
        """Commit messages on a separate branch and merge it."""
        self.git("checkout", "-qb", "side", into)
        for number, message in enumerate(messages):
            self.commit(message, f"side{number}.py")
        self.git("checkout", "-q", into)
        self.at += 60
        self.git("merge", "-q", "--no-ff", "side", "-m", text)

    def draft(self, beginning: str) -> Draft:
        (matching,) = [draft for draft in self.drafts() if draft.content.startswith(beginning)]
        return matching

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
def test_noise_commits_are_skipped(text):
    assert git_message.is_noise(git_message.parse_message(text), "Ada")


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
def test_commits_with_a_message_of_substance_are_imported(text):
    assert not git_message.is_noise(git_message.parse_message(text), "Ada")


@pytest.mark.parametrize(
    "text",
    ["chore: drop the old reader", "ci: switch the runners to arm", "chore!: rename the log"],
)
def test_a_quiet_type_that_changes_something_is_kept(text):
    assert not git_message.is_noise(git_message.parse_message(text), "Ada")


@pytest.mark.parametrize("author", ["Prow Robot", "release-bot", "renovate[bot]"])
def test_a_bot_is_not_recorded_as_author(repository, author):
    text = "Readers take the lock\n\nA writer waited for them."
    repository.commit(text, "a.py", author=author)
    assert all(draft.created_by is None for draft in repository.drafts())


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
        ("Deprecate Reader.open", "decision"),
        ("update deprecated pre-commit hook", "activity"),
        ("remove deprecated code", "activity"),
        ("consistent deprecation messages", "activity"),
        ("feat: fixed-width columns", "activity"),
        ("Add the tail\n\nIt lies over the manifest.", "context"),
    ],
)
def test_the_kind_follows_from_the_words(text, kind):
    assert git_message.kind_of_message(git_message.parse_message(text)) == kind


def test_trailers_and_generated_lines_go_and_references_stay():
    read = git_message.parse_message(
        "Fix the order of hits\n\nTies were random.\n> quoted mail\n\n* wip\n\nFixes #12\n"
        "Signed-off-by: A <a@x.org>\nCo-authored-by: B <b@x.org>\nChange-Id: I123\n"
        "Reviewed-by: C <c@x.org>\n(cherry picked from commit abc)\n"
        "🤖 Generated with [Claude Code](https://claude.ai/code)\n"
    )
    assert read.why == "Ties were random.\n\nFixes #12"


def test_a_long_body_is_cut_at_a_paragraph():
    body = "\n\n".join(f"Paragraph {number}. " + "word " * 60 for number in range(9))
    why = git_message.parse_message(f"Explain it\n\n{body}").why
    assert len(why) <= git_message.MAX_WHY + 4
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


def test_the_only_commit_of_a_pull_request_gets_its_number_branch_and_title(repository):
    repository.commit("Add the log file", "a.py")
    repository.merge(
        "Merge pull request #7 from ada/issue-5/tail\n\nReaders see the tail", "Add the tail reader"
    )
    assert len(repository.drafts()) == 2
    draft = repository.draft("Add the tail reader")
    assert draft.context == "Pull request #7 from issue-5/tail: Readers see the tail"
    assert draft.metadata["pull_request"] == "#7"


def test_one_of_several_commits_gets_only_the_number_of_its_pull_request(repository):
    repository.commit("Add the log file", "a.py")
    repository.merge(
        "Merge pull request #7 from ada/tail\n\nReaders see the tail",
        "Add the tail reader",
        "Wake readers on a write",
    )
    assert repository.draft("Add the tail reader").context == "Pull request #7"
    assert repository.draft("Wake readers").context == "Pull request #7"
    assert repository.draft("Readers see the tail").context == "Pull request #7 from tail"
    assert repository.draft("Add the log file").context is None


def test_pull_requests_merged_into_a_branch_are_known(repository):
    repository.commit("Add the log file", "a.py")
    repository.git("checkout", "-qb", "develop")
    repository.merge("Merge pull request #7 from ada/tail", "Add the tail reader", into="develop")
    repository.commit("Name the tail reader's states", "c.py")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "develop", "-m", "Merge branch 'develop'")
    assert repository.draft("Add the tail reader").context == "Pull request #7 from tail"
    assert repository.draft("Name the tail").context is None


@pytest.mark.parametrize(
    ("text", "context"),
    [
        (
            "Merge branch 'tail' into 'main'\n\nReaders see it\n\nSee merge request ada/log!12",
            "Merge request !12 from tail: Readers see it",
        ),
        ("Merged in tail (pull request #12)", "Pull request #12"),
        ("Merged PR 12: Readers see it", "Pull request #12"),
        ("Merge branch 'tail'", None),
    ],
)
def test_hosts_write_their_merges_in_their_own_way(repository, text, context):
    repository.commit("Add the log file", "a.py")
    repository.merge(text, "Add the tail reader")
    assert repository.draft("Add the tail reader").context == context


def test_a_commit_bears_the_first_release_that_holds_it(repository):
    repository.commit("Add the log file", "a.py")
    repository.git("tag", "v1.0.0-rc.1")
    repository.commit("Add the tail reader", "b.py")
    repository.git("tag", "v1.0.0")
    repository.git("checkout", "-qb", "1.0")
    repository.commit("Fix the tail reader", "b.py")
    repository.git("tag", "-a", "v1.0.1", "-m", "1.0.1")
    repository.git("checkout", "-q", "main")
    repository.commit("Sort the log by time", "c.py")
    repository.git("tag", "v1.1.0rc1")
    repository.commit("Sort the log by name", "c.py")
    repository.git("tag", "other-2.0", "HEAD~3")
    repository.git("tag", "nightly")
    drafts = {draft.content.split("\n")[0]: draft for draft in repository.drafts()}
    assert drafts["Add the log file"].result == "Released in 1.0.0 (1.0)."
    assert drafts["Add the log file"].metadata["released"] == "2026-08-29"
    assert drafts["Sort the log by time"].metadata["release"] == "1.1.0rc1"
    assert drafts["Sort the log by name"].result is None
    assert [subject for subject in drafts if subject.startswith("Release")] == [
        "Release 1.0.0 (1.0) on 29 August 2026: 2 changes.",
        "Release 1.0.1 (1.0) on 29 August 2026, after 1.0.0: one change.",
        "Release 1.1.0rc1 (1.1) on 29 August 2026, after 1.0.1: one change.",
    ]
    (newest,) = repository.drafts(limit=1)
    assert newest == drafts["Sort the log by name"]


def test_a_release_is_a_memory_of_its_day(repository):
    repository.commit("Add the log file", "a.py")
    repository.git("tag", "v1.0.0")
    repository.at += DAY
    repository.commit("Add the tail reader", "b.py")
    repository.commit("Fix the tail reader", "b.py")
    repository.git("tag", "v1.1.0")
    first, second = [draft for draft in repository.drafts() if draft.kind == "milestone"]
    assert first.content == "Release 1.0.0 (1.0) on 29 August 2026: one change."
    assert second.content == "Release 1.1.0 (1.1) on 30 August 2026, after 1.0.0: 2 changes."
    assert second.created_at is not None and second.created_at.timestamp() == repository.at
    assert second.metadata == {"release": "1.1.0", "changes": 2}


@pytest.mark.parametrize(
    ("tags", "releases"),
    [
        (("rel_1_4_2", "rel_2_0"), ["1.4.2", "2.0"]),
        (("2026-05-01", "2026-06-01"), ["2026-05-01", "2026-06-01"]),
        (("v1.0.0-alpha.2", "V1.0.0"), ["1.0.0", "1.0.0"]),
        (("cli@1.0.0", "cli@1.1.0"), ["1.0.0", "1.1.0"]),
        (("1.0.post1", "1.1+build.7"), ["1.0.post1", "1.1+build.7"]),
        (("stable", "k8s"), [None, None]),
    ],
)
def test_releases_in_other_spellings(repository, tags, releases):
    for number, tag in enumerate(tags):
        repository.commit(f"Add the reader of part {number}", "a.py")
        repository.git("tag", tag)
    release_names = [draft.metadata.get("release") for draft in repository.drafts()]
    assert release_names[:2] == releases


def test_a_revert_and_what_it_takes_back_name_each_other(repository):
    repository.commit("Add the tail reader", "b.py")
    reverted = repository.sha()
    repository.at += DAY
    repository.git("revert", "--no-edit", reverted)
    revert = repository.sha()
    old, new = repository.drafts()
    assert old.result == f"Reverted by {revert[:7]} on 30 August 2026."
    assert new.result == f"Reverts {reverted[:7]} of 29 August 2026."
    assert "reverted" in old.tags and "revert" in new.tags
    assert old.metadata["reverted_by"] == revert[:12]
    assert new.metadata["reverts"] == reverted[:12]


@pytest.mark.parametrize(
    "text",
    [
        'Revert "Add the tail reader (#7)" (#9)',
        "revert: add the tail reader (#7)",
        "revert(log)!: Add the tail reader (#7) (#9)",
        "Take the tail reader out\n\nReverts ada/log#7",
        "Take it out\n\nThis reverts commit SHORT: it woke too often.",
    ],
)
def test_a_revert_finds_its_commit_by_subject_number_or_sha(repository, text):
    repository.commit("feat: Add the tail reader (#7)", "b.py")
    reverted = repository.sha()
    if text.startswith("revert: add"):
        repository.commit("feat: add the tail reader (#7)", "c.py")
        reverted = repository.sha()
    repository.commit(text.replace("SHORT", reverted[:8]), "b.py")
    assert repository.drafts()[-1].metadata["reverts"] == reverted[:12]


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
    text = b"Sort the caf\xe9 names"  # git itself would fix a commit made by `git commit`
    commit = b"commit refs/heads/main\ncommitter Ada <a@x.org> 1788000000 +0000\n"
    commit += b"data %d\n%s\nM 644 inline n\xe9.py\ndata 1\n1\n" % (len(text), text)
    repository.git("fast-import", "--quiet", stdin=commit)
    (draft,) = repository.drafts()
    assert draft.content == "Sort the caf\ufffd names\n\nFiles: n\ufffd.py"


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
    assert repository.drafts()[1].content.endswith("Files: new name.py (renamed from old name.py)")


def test_files_are_few_and_generated_ones_come_last(repository):
    repository.commit("Add the parts of it", "uv.lock", *(f"part{n}.py" for n in range(9)))
    content = repository.drafts()[0].content
    assert content.endswith("part5.py (+4 more)")
    assert "uv.lock" not in content


def test_an_empty_repository_gives_nothing(repository):
    assert repository.drafts() == []


def test_import_reports_progress_per_commit(repository):
    for number in range(5):
        repository.commit(f"Add part {number} of the whole", "a.py")
    progress: list[tuple[int, int]] = []
    repository.drafts(limit=3, on_progress=lambda count, total: progress.append((count, total)))
    assert progress == [(1, 3), (2, 3), (3, 3)]


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


def test_a_broken_repository_shows_the_error_of_git(repository):
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
def test_a_partial_clone_fetches_no_missing_objects(tmp_path: Path, url: str, setting: str):
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
    assert [draft.metadata["files"] for draft in repository.drafts()] == [["a.py"]]
    assert not ran.exists()


def test_commits_after_a_missing_file_keep_the_names_of_their_files(repository):
    repository.commit("Add the first part of it", "a.py")
    repository.commit("Add the second part of it", "b.py")
    repository.git("mv", "b.py", "c.py")
    repository.commit("Move the second part")
    repository.loose_object("HEAD:c.py").unlink()
    first, second, third = repository.drafts()
    assert first.metadata["insertions"] == 3 and second.metadata["insertions"] == 0
    assert third.content.endswith("Files: c.py (renamed from b.py)")


def test_a_missing_commit_is_named(repository):
    repository.commit("Add the first part", "a.py")
    repository.commit("Add the second part", "b.py")
    repository.loose_object("HEAD~").unlink()
    with pytest.raises(SourceError):
        repository.drafts()


def test_a_message_of_any_length_is_read_up_to_a_bound(tmp_path: Path):
    repository = Repository(tmp_path / "long")
    repository.commit(b"Say it at length\n\n" + b"word " * (3 * git_command.MAX_FIELD // 5))
    (commit,) = git.commits(repository.path, since=None, limit=None)
    assert len(commit.text) == git_command.MAX_FIELD
