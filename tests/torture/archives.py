"""
Damaged and forged backups, and zip bombs: each is restored whole, or refused and gone.

For any file, nothing is written outside the restored tenant, there is never half a tenant, the
refusal is an error of ours, and it takes seconds and little memory.
"""

import random
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from torture import forging
from torture.apart import Answer, Apart
from torture.outcome import Outcome, Scale

from store.home import tenant as tenants
from store.home.config import Settings
from store.ingest import batch
from store.ingest.job_queue import Queue
from store.log import commands, compaction
from store.log.commands import Draft
from store.log.event_kinds import Prompted
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import backup

NOW = 1_790_000_000_000_000
_LONG_AGO = NOW - 200 * 86_400_000_000
MOST_S, MOST_GROWN = 10.0, 200 << 20
_INTO = "restored"


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    home, outside = folder / "home", folder / "outside"
    outside.mkdir()
    path = folder / "whole.zip"
    digest = _remember(home, path)
    whole = forging.whole(path.read_bytes(), str(outside))
    with Apart(_restore, (str(home), str(path))) as apart:
        yield _control(folder, home, path, digest, whole, apart)
        yield _forged(folder, home, digest, whole, apart, scale)
        yield _bombs(folder, home, whole, apart, scale)


def _remember(home: Path, path: Path) -> str:
    """Make a tenant with each kind of content of a backup, and its backup; return its digest."""
    tenant = tenants.tenant(home)
    with EventLog(tenant.log, create=True) as log:
        old = [
            Event(
                f"p{number:04}",
                _LONG_AGO,
                Prompted(prompt=f"what became of {number}"),
                f"p{number}",
            )
            for number in range(300)
        ]
        log.append(old)
        compaction.compact(log, log.head(), NOW)
        drafts = [Draft(content=f"The port of service {n} is {7_000 + n}") for n in range(60)]
        commands.record_batch(log, drafts, NOW)
    queue = Queue(tenant.ingest)
    queue.accept("j1", NOW, batch.make_batch("j1", NOW, [Draft(content="the tide is at noon")]))
    queue.close()
    backup.make_backup(tenant, path, "1", NOW)
    return _digest(home, tenant.name)


def _restore(arguments: tuple[str, str]) -> str:
    """Restore a backup, in a process of its own; return the digest of the restored tenant."""
    home, path = arguments
    shutil.rmtree(tenants.tenant(Path(home), _INTO).root, ignore_errors=True)
    backup.restore_backup(Settings(Path(home)), Path(path), _INTO, NOW, replace=False)
    return _digest(Path(home), _INTO)


def _digest(home: Path, name: str) -> str:
    """Return a digest of all events of a tenant, including archived bodies."""
    total = sha256()
    with EventLog(tenants.find_tenant(home, name).log) as log:
        for event in log.read():
            total.update(repr(event).encode())
    return total.hexdigest()


def _control(
    folder: Path, home: Path, path: Path, digest: str, whole: forging.Whole, apart: Apart
) -> Outcome:
    """Return the control: the harness must see a wrong digest and a file written outside."""
    wrong = []
    if (problem := _restore_fault(folder, home, path, apart, digest)) is not None:
        raise AssertionError(f"the whole backup is refused: {problem}")
    if problem := _restore_fault(folder, home, path, apart, "another digest"):
        wrong.append(problem)
    (folder / "outside" / "evil").write_text("planted")
    if problem := _restore_fault(folder, home, path, apart, digest):
        wrong.append(problem)
    (folder / "outside" / "evil").unlink()
    tried = "a backup of something else, and a file outside"
    return Outcome(tried, len(wrong), "plants", tuple(wrong), is_control=True, floor=2)


def _forged(
    folder: Path, home: Path, digest: str, whole: forging.Whole, apart: Apart, scale: Scale
) -> Outcome:
    wrong, tried, refused = [], 0, 0
    for number in range(scale.of(120, 2_200)):
        forge = forging.FORGES[number % len(forging.FORGES)]
        data = forge(random.Random(f"{forge.__name__} {number}"), whole)
        path = folder / "forged.zip"
        path.write_bytes(data)
        tried += 1
        problem = _restore_fault(folder, home, path, apart, digest)
        refused += (home / "tenants" / _INTO).exists()
        if problem is not None:
            wrong.append(f"{forge.__name__} {number}: {problem}")
    note = f"{refused} harmless, restored whole"
    return Outcome("a mutated backup is restored", tried, "files", tuple(wrong), note, floor=2_000)


def _bombs(folder: Path, home: Path, whole: forging.Whole, apart: Apart, scale: Scale) -> Outcome:
    gib = 1 << 30
    bombs = {
        "zeros": forging.bomb(scale.of(1, 10) * gib, whole, is_honest=True),
        "zeros that the list hides": forging.bomb(scale.of(1, 10) * gib, whole, is_honest=False),
        "members": forging.crowd(scale.of(50_000, 1_000_000), whole),
    }
    wrong, answers, most, longest = [], [], 0, 0.0
    for name, pieces in bombs.items():
        path = folder / "bomb.zip"
        with path.open("wb") as file:
            file.writelines(pieces)
        answer = apart.ask((str(home), str(path)))
        most, longest = max(most, answer.grown), max(longest, answer.took_s)
        answers.append(answer.refused.rpartition(": ")[2])
        if problem := _problem(folder, home, answer, "nothing of it"):
            wrong.append(f"{name}: {problem}")
        path.unlink()
    note = f"at most {most >> 20} MiB more in all of them, {longest:.1f} s: {'; '.join(answers)}"
    return Outcome("a backup that bursts", len(bombs), "bombs", tuple(wrong), note, floor=3)


def _restore_fault(folder: Path, home: Path, path: Path, apart: Apart, digest: str) -> str | None:
    return _problem(folder, home, apart.ask((str(home), str(path))), digest)


def _problem(folder: Path, home: Path, answer: Answer, digest: str) -> str | None:
    """Return the fault of a restore, or None."""
    strange = _elsewhere(folder, home)
    if answer.crash:
        return answer.crash[:300]
    if strange:
        return f"wrote {', '.join(strange)}"[:300]
    if answer.refused and tenants.tenant(home, _INTO).root.exists():
        return f"left a part of a tenant after {answer.refused}"[:300]
    if not answer.refused and answer.value != digest:
        return "restored something else"
    if answer.took_s > MOST_S:
        return f"took {answer.took_s:.1f} s"
    if answer.grown > MOST_GROWN:
        return f"took {answer.grown >> 20} MiB more"
    return None


def _elsewhere(folder: Path, home: Path) -> list[str]:
    """Return the paths in the folder outside the expected tenants."""
    ours = {"home", "outside", "whole.zip", "forged.zip", "bomb.zip"}
    strays = {path.name for path in folder.iterdir()} - ours
    strays |= {f"outside/{path.name}" for path in (folder / "outside").iterdir()}
    strays |= {f"tenants/{path.name}" for path in (home / "tenants").iterdir()} - {
        "tenants/default",
        f"tenants/{_INTO}",
    }
    strays |= {path.name for path in home.iterdir()} - {"tenants", "origin", "origin.lock"}
    return sorted(strays)
