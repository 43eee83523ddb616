"""
A repository's history as a whole: the facts that no commit states about itself.

The first release with a commit, its pull request, and the commits it reverts or was reverted by.
All are read from the graph of commits, their messages and the tags, before any commit becomes a
memory.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from store.importers.git_command import git_fields
from store.importers.git_message import MAX_SUBJECT, parse_message, split_merge
from store.text.excerpt import one_line

LAST_SECOND = 253_402_300_799  # the year 9999; git takes any number

# "2.3.0", "v2.3.0-rc.1", "2.3rc1", "release-2.3", "rel_1_4_2", "2026-05-01", "cli@2.3.0". The
# prefix of the number distinguishes the packages of one repository.
_TAG = re.compile(
    r"\A(?P<prefix>|[^0-9](?:.*[^0-9._])?)[-_]?[vV]?(?P<version>[0-9]+(?:[-._][0-9]+)*)"
    r"(?P<more>(?:[-._+]|(?=(?:a|b|c|rc|alpha|beta|dev|post)[0-9]))[A-Za-z][\w.+-]*)?"
)
_UNFINISHED = re.compile(
    r"[-._+]?(?:a|b|c|m|rc|alpha|beta|pre|preview|dev|milestone)(?![a-z])", re.I
)

_REVERTED_COMMIT = re.compile(r"\breverts? (?:merge )?commit ([0-9a-f]{7,64})\b", re.I)
_REVERTED_PULL = re.compile(r"^reverts? (?:[\w.-]+/[\w.-]+)?([#!][0-9]+)\b", re.I | re.M)
_REVERTED_TITLE = re.compile(r'^revert(?:s|ed)?:? "(.*)"', re.I)
_REQUEST_NUMBER = re.compile(r"\((#[0-9]+)\)$")  # of the pull request that was squashed

# As GitHub, Bitbucket, Azure DevOps and GitLab write a merge.
_PULL = re.compile(
    r"^Merge pull request (?P<github>#[0-9]+)(?: from (?:[^/\s]+/)?(?P<branch>\S+))?"
    r"|\(pull request (?P<bitbucket>#[0-9]+)\)"
    r"|^Merged PR (?P<azure>[0-9]+)\b"
)
_GITLAB = re.compile(r"^See merge request (?:[\w./-]+)?(![0-9]+)$", re.M)
_GITLAB_BRANCH = re.compile(r"^Merge branch '([^']+)'")


class Release(msgspec.Struct, frozen=True):
    """A tagged version; `at` is the time of its commit, in seconds."""

    version: str
    at: int


class ReleaseNotes(msgspec.Struct, frozen=True):
    """A release, the one before it, and the number of commits it was the first to hold."""

    release: Release
    previous: Release | None
    changes: int


class Pull(msgspec.Struct, frozen=True):
    """A pull or merge request: `number` has its sign (#12, !12), `branch` no user's name."""

    number: str
    title: str
    branch: str
    commits: int = 0  # that it brought


class Reference(msgspec.Struct, frozen=True):
    """Another commit; `at` is in seconds."""

    sha: str
    at: int
    subject: str


class Origin(msgspec.Struct, frozen=True):
    """One commit's release, pull request and reverts, from the history."""

    release: Release | None = None
    pull: Pull | None = None
    reverts: Reference | None = None
    reverted_by: Reference | None = None


def day(at: int) -> str:
    """Return a day as text: 2 June 2024."""
    when = datetime.fromtimestamp(at, UTC)
    return f"{when.day} {when:%B} {when.year}"


def second(at: str) -> int:
    """Return a git time in seconds, within a memory's range."""
    return min(max(int(at or 0), 0), LAST_SECOND)


@dataclass
class _Graph:
    """The commits, numbered with parents before their children."""

    places: dict[str, int] = field(default_factory=dict)
    parents: list[tuple[int, ...]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)
    pulls: dict[int, Pull] = field(default_factory=dict)  # by their merge
    reverts: dict[int, int] = field(default_factory=dict)


class History:
    """The origins of the commits of the checked-out branch, and of those of the tags."""

    def __init__(self, source: Path) -> None:
        tags = _tags(source)
        graph = _read(source, has_tags=bool(tags))
        head = next(_log(source, 1, "-1", "--format=%H"), [""])[0]
        merges = _merges(graph, graph.places.get(head))
        counts = Counter(merges.values())
        self._places, self._merges, self._reverts = graph.places, merges, graph.reverts
        self._releases = _releases(graph, tags)
        self.notes = _notes(graph, self._releases)
        self._pulls = {
            place: Pull(pull.number, pull.title, pull.branch, counts[place])
            for place, pull in graph.pulls.items()
        }
        self._reverted: dict[int, int] = {}
        for new, old in sorted(graph.reverts.items()):
            self._reverted.setdefault(old, new)
        referenced = {*graph.reverts, *graph.reverts.values()}
        self._references = {
            place: Reference(sha, graph.times[place], graph.subjects[place])
            for sha, place in graph.places.items()
            if place in referenced
        }

    def of(self, sha: str) -> Origin:
        """Return the release, pull request and reverts of a commit."""
        place = self._places.get(sha)
        if place is None:
            return Origin()
        return Origin(
            release=self._releases.get(place),
            pull=self._pulls.get(self._merges.get(place, place)),
            reverts=self._references.get(self._reverts.get(place, -1)),
            reverted_by=self._references.get(self._reverted.get(place, -1)),
        )


def _log(source: Path, fields: int, *options: str) -> Iterator[list[str]]:
    """Yield the fields of each commit that `git log` lists."""
    command = ["log", "-z", "--no-color", "--no-show-signature", *options]
    with git_fields(source, command) as values:
        while first := next(values, ""):
            yield [first, *(next(values, "") for _ in range(fields - 1))]


def _read(source: Path, *, has_tags: bool) -> _Graph:
    graph = _Graph()
    last: dict[str, int] = {}  # commit of a subject, or with the number of a pull request
    shortened: dict[int, str] = {}
    which = ["HEAD", "--tags"] if has_tags else []
    commits = _log(source, 4, "--reverse", "--topo-order", "--format=%H%x00%P%x00%ct%x00%B", *which)
    for place, (sha, parents, at, text) in enumerate(commits):
        graph.places[sha] = place
        graph.times.append(second(at))
        graph.parents.append(
            tuple(graph.places[parent] for parent in parents.split() if parent in graph.places)
        )
        subject, _, body = text.strip().partition("\n")
        graph.subjects.append(one_line(subject, MAX_SUBJECT))
        pull = _pull(subject, body.strip()) if " " in parents else None
        if commit := _REVERTED_COMMIT.search(body):
            shortened[place] = commit[1].lower()
        elif (old := _reverted_by_name(subject, body, last)) is not None:
            graph.reverts[place] = old
        if pull is not None:
            graph.pulls[place] = pull
        number = pull.number if pull else (_REQUEST_NUMBER.search(subject) or ("", ""))[1]
        last |= dict.fromkeys((number, subject, parse_message(subject).topic), place)
    shas = sorted(graph.places) if shortened else []
    for place, short in shortened.items():
        at_least = bisect_left(shas, short)
        if at_least < len(shas) and shas[at_least].startswith(short):
            graph.reverts[place] = graph.places[shas[at_least]]
    return graph


def _reverted_by_name(subject: str, body: str, last: Mapping[str, int]) -> int | None:
    """Return the reverted commit, known by its subject or its pull request."""
    read = parse_message(subject)
    names: list[str] = []
    if title := _REVERTED_TITLE.match(subject):
        names.append(title[1])
    if number := _REVERTED_PULL.search(f"{read.topic}\n{body}"):
        names.append(number[1])
    if read.type == "revert":
        names += [read.topic, _REQUEST_NUMBER.sub("", read.topic).rstrip()]
    return next((last[name] for name in names if name in last), None)


def _pull(subject: str, body: str) -> Pull | None:
    """Return a merge's pull request, if it has one."""
    title = one_line(split_merge(subject, body)[0], MAX_SUBJECT)
    if match := _PULL.search(subject):
        number = match["github"] or match["bitbucket"] or f"#{match['azure']}"
        return Pull(number, title, match["branch"] or "")
    if match := _GITLAB.search(body):
        branch = _GITLAB_BRANCH.match(subject)
        return Pull(match[1], title, branch[1] if branch else "")
    return None


def _merges(graph: _Graph, head: int | None) -> dict[int, int]:
    """Return the pull request's merge of each commit, for those that have one.

    Lines of first parents are followed, the oldest commit first: a merge brought the commits that
    are new with it. The branch of any other merge is a line of its own.
    """
    merges: dict[int, int] = {}
    visited = bytearray(len(graph.parents))
    lines = [] if head is None else [_line(graph, head, visited)]
    while lines:
        if not lines[-1]:
            lines.pop()
            continue
        place = lines[-1].pop()
        others = graph.parents[place][1:]
        if place in graph.pulls:
            waiting = [other for other in others if not visited[other]]
            while waiting:
                commit = waiting.pop()
                if not visited[commit]:
                    visited[commit] = 1
                    merges[commit] = place
                    waiting += graph.parents[commit]
        else:
            lines += [_line(graph, other, visited) for other in others if not visited[other]]
    return merges


def _line(graph: _Graph, tip: int, visited: bytearray) -> list[int]:
    """Return the first parents of a commit that were not visited, itself first, and mark them."""
    line: list[int] = []
    while not visited[tip]:
        visited[tip] = 1
        line.append(tip)
        if not graph.parents[tip]:
            break
        tip = graph.parents[tip][0]
    return line


def _tags(source: Path) -> list[tuple[str, str]]:
    """Return the tags, each with the commit it names."""
    wanted = "%(refname:strip=2)%00%(objectname)%00%(*objectname)%00"
    with git_fields(source, ["for-each-ref", f"--format={wanted}", "refs/tags"]) as fields:
        read = list(fields)
    return [
        (name.lstrip("\n"), peeled or own)
        for name, own, peeled in zip(read[::3], read[1::3], read[2::3], strict=False)
    ]


def _releases(graph: _Graph, tags: Sequence[tuple[str, str]]) -> dict[int, Release]:
    """Return the first release that holds each commit; preferably no release candidate.

    In a repository that releases several packages, the one with the most releases is followed.
    """
    read = [
        (match, graph.places[sha])
        for name, sha in tags
        if sha in graph.places and (match := _TAG.fullmatch(name))
    ]
    packages = Counter(match["prefix"].casefold() for match, _ in read)
    package = packages.most_common(1)[0][0] if packages else ""
    first: dict[int, Release] = {}
    releases = []
    for match, place in read:
        if match["prefix"].casefold() == package:
            more = match["more"] or ""
            version = match["version"].replace("_", ".") + more
            is_last = not _UNFINISHED.match(more)
            releases.append((not is_last, graph.times[place], version, place))
    for _, at, version, place in sorted(releases):
        release, waiting = Release(version, at), [place]
        while waiting:
            commit = waiting.pop()
            if commit not in first:
                first[commit] = release
                waiting += graph.parents[commit]
    return first


def _notes(graph: _Graph, releases: Mapping[int, Release]) -> list[ReleaseNotes]:
    """Return the notes of each release, in order of time."""
    changes = Counter(
        release for place, release in releases.items() if len(graph.parents[place]) < 2
    )
    order = sorted(changes, key=lambda release: release.at)
    return [
        ReleaseNotes(release, order[at - 1] if at else None, changes[release])
        for at, release in enumerate(order)
    ]
