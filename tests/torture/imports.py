"""
Imports of spoilt sources, endless ones, and those that try to run a program.

Any source is read, or refused with an error of ours that names the line; it takes seconds and
little memory; nothing of it is ever executed.
"""

import gzip
import json
import os
import random
import shlex
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from torture import spoiling
from torture.apart import Answer, Apart
from torture.outcome import Outcome, Scale
from transcript_files import DATA as TRANSCRIPTS
from transcript_files import imported, written

from store.home import tenant as tenants
from store.importers import git, jsonl, markdown
from store.importers.transcript_hosts import TRANSCRIPT_HOSTS
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance.export import export

NOW = 1_790_000_000_000_000
DATA = Path(__file__).parents[1] / "data"
MOST_S, MOST_GROWN = 10.0, 200 << 20
_MIB = 1 << 20
_READ: dict[str, Callable[[Path], Iterator[Draft]]] = {
    "jsonl": lambda source: jsonl.drafts(source, project=None),
    "markdown": lambda source: markdown.drafts(source, project=None),
    "git": lambda source: git.drafts(source, project=None),
}

Given = tuple[str, str, str]  # the reader, the source, the home


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    home = str(folder / "home")
    source = folder / "source"
    source.mkdir()
    samples = _samples(folder)
    with Apart(_import, ("jsonl", str(samples["jsonl"][0]), home)) as apart:
        yield _control(home, apart)
        yield _spoilt(source, home, samples, apart, scale)
        yield _endless(source, home, apart, scale)
        yield _strange(source, home, apart)
        yield _repositories(source, home, apart, scale)


def _import(job: Given) -> tuple[int, int]:
    """Import a source, in a process of its own; return the number of memories read and refused."""
    kind, source, home = job
    if kind == "planted":
        memory = bytearray(300 * _MIB)
        raise ValueError(f"planted {len(memory)}")
    with EventLog(tenants.tenant(Path(home)).log, create=True) as log:
        if kind in TRANSCRIPT_HOSTS:
            counts = imported(log, kind, Path(source), now=NOW).counts
        else:
            counts = commands.import_drafts(log, _READ[kind](Path(source)), NOW)
    return counts.added + counts.known, counts.refused


def _samples(folder: Path) -> dict[str, list[Path]]:
    """Return valid sources, by their reader."""
    exported = folder / "exported.jsonl"
    with EventLog(tenants.tenant(folder / "sample").log, create=True) as log:
        drafts = [
            Draft(
                content=f"Service {number} listens on port {7_000 + number}",
                tags=("port",),
                metadata={"files": ["a.py", {"deep": [number]}]},
                key=f"service.{number}.port",
                value=str(7_000 + number),
                created_at=datetime(2026, 1, 2, tzinfo=UTC),
            )
            for number in range(20)
        ]
        commands.record_batch(log, drafts, NOW)
        exported.write_bytes(b"\n".join(export(log, NOW, all_states=True)))
    return {
        "jsonl": [exported],
        "claude-code": sorted((DATA / "sessions").glob("*.jsonl")),
        "codex": sorted((TRANSCRIPTS / "codex").rglob("*.jsonl")),
        "gemini": sorted((TRANSCRIPTS / "gemini").rglob("*.jsonl")),
        "opencode": sorted(written("opencode", folder / "opencode").glob("*.db")),
        "markdown": sorted((DATA / "notes").rglob("*.md")),
    }


def _control(home: str, apart: Apart) -> Outcome:
    """Return the control: the harness must see a crash and the memory it took."""
    answer = apart.ask(("planted", "", home))
    wrong = [fault for fault in (answer.crash, answer.grown > MOST_GROWN and "memory") if fault]
    apart.restart()
    return Outcome("a planted crash", len(wrong), "plants", wrong, is_control=True, floor=2)


def _spoilt(
    source: Path, home: str, samples: dict[str, list[Path]], apart: Apart, scale: Scale
) -> Outcome:
    wrong, refused, slowest, grown = [], 0, 0.0, 0
    kinds = list(samples)
    times = scale.of(60, 4_500)
    for number in range(times):
        kind = kinds[number % len(kinds)]
        chance = random.Random(f"imports {number}")
        spoil = chance.choice(spoiling.SPOILS)
        whole = chance.choice(samples[kind])
        data = spoil(chance, whole.read_bytes())
        if kind == "jsonl" and number % 5 == 0:
            data = gzip.compress(data, mtime=0)
            data = spoiling.flipped(chance, data) if number % 2 else data
        path = source / whole.name
        path.write_bytes(data)
        answer = apart.ask((kind, str(path), home))
        refused += bool(answer.refused)
        slowest, grown = max(slowest, answer.took_s), max(grown, answer.grown)
        problem = _problem(answer)
        if kind == "jsonl" and answer.refused and " line " not in answer.refused:
            problem = None if data.startswith(b"\x1f\x8b") else f"no line: {answer.refused}"[:200]
        if problem:
            wrong.append(f"{kind} {spoil.__name__} {number}: {problem}")
        path.unlink()
    note = f"{refused:,} refused, at most {slowest:.1f} s and {grown >> 20} MiB more"
    return Outcome("a spoilt source is imported", times, "files", wrong, note, floor=4_000)


def _endless(source: Path, home: str, apart: Apart, scale: Scale) -> Outcome:
    """Import sources that are far too long, in one line, in depth, or once unpacked."""
    mib, many = scale.of(10, 100), scale.of(2_000, 100_000)
    line = b'{"content":"' + b"a" * (mib * _MIB) + b'"}\n'
    said = b'{"type":"user","message":{"content":"' + b"a" * (mib * _MIB) + b'"}}\n'
    lists = b'{"content":"a note","metadata":{"a":[' + b"[]," * (mib * _MIB // 3) + b"1]}}\n"
    tool = (
        b'{"type":"assistant","message":{"content":[{"type":"tool_use","input":{"a":['
        + b"[]," * (2 * _MIB)
        + b"1]}}]}}\n"
    )
    begun = (
        b'{"type":"session_meta","timestamp":"2026-09-21T09:00:00Z",'
        b'"payload":{"id":"a","cwd":"/a"}}\n'
    )
    item = (
        b'{"type":"response_item","timestamp":"2026-09-21T09:00:00Z","payload":{"type":"message",'
        b'"role":"user","content":[{"type":"input_text","text":"go on"}]}}\n'
    )
    chat = b'{"sessionId":"a","projectHash":"0","startTime":"2026-09-21T09:00:00Z"}\n'
    said_again = b",".join(
        b'{"id":"%d","type":"user","content":"go on"}' % number for number in range(1_000)
    )
    many_lists = b"[" + b"[]," * (2 * _MIB) + b"1]}\n"
    deep = b'{"content":"x","metadata":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}\n"
    deep_said = b'{"type":"user","message":{"content":' + b"[" * 100_000 + b"\n"
    title = b'{"type":"summary","summary":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    sources: tuple[tuple[str, str, bytes], ...] = (
        ("jsonl", "line.jsonl", line),
        ("jsonl", "lists.jsonl", lists),
        ("jsonl", "small-lists.jsonl", lists[: 7 * _MIB] + b"1]}}\n"),
        ("jsonl", "deep.jsonl", deep),
        ("jsonl", "no-line.jsonl", b"x" * (mib * _MIB)),
        ("jsonl", "empty-lines.jsonl", b"\n" * (8 * _MIB)),
        ("claude-code", "blocks.jsonl", said[:37] + b"[" + b"{}," * (2 * _MIB) + b"{}]}}\n"),
        ("jsonl", "zeros.jsonl", gzip.compress(bytes(3 * mib * _MIB), 9)),
        ("jsonl", "same.jsonl", gzip.compress((line[:2_000] + b'"}\n') * 30_000, 9)),
        ("jsonl", "half.jsonl", gzip.compress(line, 9)[:-9]),
        ("jsonl", "zeros.zst", _zstd(bytes(mib * _MIB))),
        ("jsonl", "broken.zst", _zstd(line)[:-5]),
        ("claude-code", "line.jsonl", said * 2),
        ("claude-code", "lists.jsonl", tool),
        ("claude-code", "deep.jsonl", deep_said + title),
        ("claude-code", "turns.jsonl", said[: 4 * _MIB].replace(b"a" * 9_000, b"") * 2),
        ("claude-code", "no-line.jsonl", b"{" * (mib * _MIB)),
        (
            "codex",
            "rollout-lists.jsonl",
            begun + b'{"type":"response_item","payload":' + many_lists,
        ),
        ("codex", "rollout-items.jsonl", begun + item * many),
        ("codex", "rollout-deep.jsonl", begun + deep),
        (
            "gemini",
            "session-lists.jsonl",
            chat + b'{"id":"1","type":"user","content":' + many_lists,
        ),
        ("gemini", "session-one.json", chat[:-2] + b',"messages":' + many_lists),
        (
            "gemini",
            "session-same.jsonl",
            chat + (b'{"$set":{"messages":[' + said_again + b"]}}\n") * 200,
        ),
        ("opencode", "opencode.db", b"SQLite format 3\x00" + b"\x00" * (mib * _MIB)),
        ("markdown", "long.md", b"a " * (mib * _MIB)),
        ("markdown", "long-line.md", b"never " * (4 * _MIB // 6)),
        ("markdown", "headings.md", b"# a b c d\n\ntext of it here\n" * many),
        ("markdown", "fences.md", b"````\n```\n" * 200_000),
        ("markdown", "items.md", b"- always use this one\n" * many),
        ("markdown", "comment.md", b"<!--" * 500_000),
        ("markdown", "front.md", b"---\n" + b"tags:\n" * 500_000),
        ("markdown", "spaces.md", b"# " + b" \t" * 1_500_000 + b"x"),
        ("markdown", "blank.md", b" \n" * 1_500_000),
    )
    wrong, took, grown = [], {}, 0
    for kind, name, data in sources:
        path = source / name
        path.write_bytes(data)
        answer = apart.ask((kind, str(path), home))
        took[f"{kind} {name}"], grown = answer.took_s, max(grown, answer.grown)
        if problem := _problem(answer):
            wrong.append(f"{kind} {name}: {problem}")
            apart.restart()
        path.unlink()
    slowest = max(took, key=lambda name: took[name])
    note = f"at most {took[slowest]:.1f} s ({slowest}) and {grown >> 20} MiB more"
    return Outcome("a source without end", len(sources), "files", wrong, note, floor=25)


def _zstd(data: bytes) -> bytes:
    import pyarrow as pa

    packed: bytes = pa.Codec("zstd", 19).compress(data, asbytes=True)
    return packed


def _strange(source: Path, home: str, apart: Apart) -> Outcome:
    """Import strange folders and names: pipes, devices, link loops, links to the outside."""
    outside = source.parent / "outside"
    outside.mkdir()
    secret = "the harbour opens at six for the pilots"
    line = {"type": "user", "message": {"content": f"Remember that {secret}"}, "uuid": "u1"}
    (outside / "secret.md").write_text(f"# Note\n\nRemember that {secret}.\n")
    (outside / "secret.jsonl").write_text(json.dumps(line) + "\n")
    kinds = {"markdown": ".md", "jsonl": ".jsonl"} | dict.fromkeys(TRANSCRIPT_HOSTS, ".jsonl")
    wrong, tried = [], 0
    for kind, ending in kinds.items():
        folder = source / kind
        _strange_folder(folder, ending, outside)
        one_by_one = () if kind == "jsonl" else (folder, *sorted(folder.iterdir()))
        for path in one_by_one or (folder / f"loop{ending}", folder, source / "missing"):
            answer = apart.ask((kind, os.fsdecode(path), home))
            tried += 1
            if problem := _problem(answer):
                wrong.append(f"{kind} {path.name!a}: {problem}")
    return Outcome("a folder of strange files", tried, "paths", wrong, floor=20)


def _strange_folder(folder: Path, ending: str, outside: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / f"pipe{ending}")
    (folder / f"zero{ending}").symlink_to("/dev/zero")
    (folder / f"loop{ending}").symlink_to(folder / f"loop{ending}")
    (folder / "up").symlink_to(folder.parent)
    (folder / f"folder{ending}").mkdir()
    (folder / f"gone{ending}").symlink_to(folder / "nothing")
    (folder / f"out{ending}").symlink_to(outside / f"secret{ending}")
    named = os.fsdecode(b"caf\xe9")
    (folder / f"{named}{ending}").write_bytes((outside / f"secret{ending}").read_bytes())
    (folder / f"-rf{ending}").write_bytes(b"")
    (folder / f"a\nb{ending}").write_bytes((outside / f"secret{ending}").read_bytes())


def _repositories(source: Path, home: str, apart: Apart, scale: Scale) -> Outcome:
    """Import repositories whose settings, hooks and attributes name a program to run."""
    ran = source.parent / "ran"
    program = source.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(ran))}\ncat\n")
    program.chmod(0o700)
    wrong, tried = [], 0
    hostile = _HOSTILE if scale is Scale.FULL else _HOSTILE[_MOST_TELLING]
    for number, make in enumerate(hostile):
        folder = source / f"repository-{number}"
        _repository(folder)
        make(folder, program)
        for kind in ("git", "markdown"):
            tried += 1
            answer = apart.ask((kind, str(folder), home))
            if problem := _problem(answer):
                wrong.append(f"{make.__name__} read by {kind}: {problem}")
            if ran.exists():
                wrong.append(f"{make.__name__} ran a program, read by {kind}")
                ran.unlink()
    return Outcome("a hostile repository is imported", tried, "imports", wrong, floor=30)


def _git(folder: Path, *words: str, **given: str) -> str:
    environ = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    completed = subprocess.run(
        ("git", *who, "-C", str(folder), *words),
        env=environ | {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"} | given,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return completed.stdout.decode(errors="replace").strip()


def _repository(folder: Path) -> None:
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    (folder / "main.py").write_text("print(1)\n" * 30)
    (folder / "README.md").write_text("# Read me\n\nThe server listens on port seven thousand.\n")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "Read the clock once, so that midnight changes nothing")
    (folder / "main.py").write_text("print(2)\n" * 30)
    _git(folder, "commit", "-q", "-a", "-m", "Fix the port: it was taken by another server")


def _setting(*pairs: tuple[str, str]) -> Callable[[Path, Path], None]:
    def make(folder: Path, program: Path) -> None:
        for key, value in pairs:
            _git(folder, "config", key, value.replace("PROGRAM", str(program)))
        attributes = "*.py diff=evil filter=evil merge=evil\n"
        (folder / ".git" / "info" / "attributes").write_text(attributes)

    make.__name__ = " ".join(key for key, _ in pairs)
    return make


def _hooks(folder: Path, program: Path) -> None:
    for name in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        (folder / ".git" / "hooks" / name).write_text(program.read_text())
        (folder / ".git" / "hooks" / name).chmod(0o700)


def _promised(folder: Path, program: Path) -> None:
    """Make a partial clone without a blob: git would fetch it with the program in the settings."""
    blob = _git(folder, "rev-parse", "HEAD:main.py")
    _git(folder, "config", "extensions.partialClone", "origin")
    _git(folder, "config", "core.repositoryFormatVersion", "1")
    _git(folder, "config", "remote.origin.promisor", "true")
    _git(folder, "config", "remote.origin.url", f"ext::{program} %S")
    _git(folder, "config", "protocol.allow", "always")
    _git(folder, "config", "protocol.ext.allow", "always")
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


def _promised_by_ssh(folder: Path, program: Path) -> None:
    _promised(folder, program)
    _git(folder, "config", "remote.origin.url", "ssh://somewhere/else")
    _git(folder, "config", "core.sshCommand", str(program))


def _promised_by_proxy(folder: Path, program: Path) -> None:
    _promised(folder, program)
    _git(folder, "config", "remote.origin.url", "git://localhost/else")
    _git(folder, "config", "core.gitProxy", str(program))


def _promised_by_upload_pack(folder: Path, program: Path) -> None:
    _promised(folder, program)
    _git(folder, "config", "remote.origin.url", str(folder))
    _git(folder, "config", "remote.origin.uploadpack", str(program))


def _long_message(folder: Path, program: Path) -> None:
    text = folder.parent / "message"
    text.write_text("word " * (60 * _MIB // 5))
    _git(folder, "commit", "-q", "--allow-empty", "-F", str(text))
    text.unlink()


def _odd_commit(folder: Path, program: Path) -> None:
    """Make a commit with times, names and a message that no git would write."""
    tree = _git(folder, "rev-parse", "HEAD^{tree}")
    parent = _git(folder, "rev-parse", "HEAD")
    raw = folder.parent / "commit"
    raw.write_bytes(
        f"tree {tree}\nparent {parent}\n".encode()
        + b"author \xff\x1b[2J <> 99999999999999999999 +9999\n"
        + b"committer A <a> -5 +0000\nencoding UTF-77\n\nFix the \x00 clock\xff\xfe, and more\n"
    )
    commit = _git(folder, "hash-object", "-t", "commit", "-w", "--literally", str(raw))
    (folder / ".git" / "refs" / "heads" / "main").write_text(commit + "\n")
    raw.unlink()


def _odd_names(folder: Path, program: Path) -> None:
    for name in (b"\xff\xfe.py", b"a\nb.py", b"-p", b"\x1b[2J"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("1\n")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "Add files that have the oddest of names")


def _broken(folder: Path, program: Path) -> None:
    (folder / ".git" / "config").write_bytes(b"[core\n\x00" * 1_000)


def _blank_origin(folder: Path, program: Path) -> None:
    """Add a remote with settings of 200,000 blank lines."""
    with (folder / ".git" / "config").open("a") as config:
        config.write('[remote "origin"]\n' + "\n" * 200_000 + "\turl\n")


def _pointing(text: bytes) -> Callable[[Path, Path], None]:
    """Return a maker of work trees with a `.git` file of some text."""

    def make(folder: Path, program: Path) -> None:
        (folder / ".git").rename(folder.parent / f"{folder.name}-git")
        (folder / ".git").write_bytes(text)

    make.__name__ = f"a .git file of {text[:20]!r}"
    return make


def _ring(folder: Path, program: Path) -> None:
    (folder / ".git").rename(folder.parent / f"{folder.name}-git")
    (folder / "ring").symlink_to(folder / "ring")
    (folder / ".git").write_text("gitdir: ring/x")


_MOST_TELLING = slice(11, 17)  # of the list below
_HOSTILE: tuple[Callable[[Path, Path], None], ...] = (
    _setting(("core.fsmonitor", "PROGRAM")),
    _setting(("core.pager", "PROGRAM"), ("pager.log", "PROGRAM")),
    _setting(("core.editor", "PROGRAM"), ("sequence.editor", "PROGRAM")),
    _setting(("diff.external", "PROGRAM")),
    _setting(("diff.evil.command", "PROGRAM")),
    _setting(("diff.evil.textconv", "PROGRAM"), ("diff.evil.cachetextconv", "true")),
    _setting(("filter.evil.clean", "PROGRAM"), ("filter.evil.smudge", "PROGRAM")),
    _setting(("filter.evil.process", "PROGRAM"), ("filter.evil.required", "true")),
    _setting(("gpg.program", "PROGRAM"), ("log.showSignature", "true")),
    _setting(("alias.log", "!PROGRAM"), ("core.askPass", "PROGRAM")),
    _setting(("credential.helper", "!PROGRAM"), ("core.sshCommand", "PROGRAM")),
    _setting(("diff.submodule", "log"), ("core.alternateRefsCommand", "PROGRAM")),
    *(_hooks, _promised, _promised_by_ssh, _promised_by_proxy, _promised_by_upload_pack),
    *(_long_message, _odd_commit, _odd_names, _broken, _blank_origin, _ring),
    *map(
        _pointing,
        (b"gitdir: a\x00b", b"gitdir: " + b"a" * 5_000, b"gitdir: \xff\xfe", b"\n" * 3_000_000),
    ),
)


def _problem(answer: Answer) -> str | None:
    """Return the fault of an import, or None."""
    if answer.crash:
        return answer.crash[:300]
    if answer.took_s > MOST_S:
        return f"took {answer.took_s:.1f} s"
    if answer.grown > MOST_GROWN:
        return f"took {answer.grown >> 20} MiB more"
    return None
