"""
Every error mnemolog raises on purpose, in one tree, so that callers can catch as much as they need.

MnemologError
├── InvalidInput            the request cannot be used: fix the call
│   ├── InvalidName         an invalid name of a tenant or project (`../x`)
│   ├── JunkText            a text that is empty, a placeholder or our own injected block
│   ├── InvalidCursor       a cursor of another list
│   ├── IdConflict          this id was already used for something else
│   ├── IdempotencyMismatch this idempotency key came with another request
│   ├── ChangedSince        the memory has changed since the caller read it
│   ├── Conflict            the object is not in a state that allows this
│   ├── PlanStale           the basis of a plan has changed since
│   └── PlanRefused         a plan's checks failed: applying it needs force
├── NotFound                no such memory or tenant
├── NeedsPerson             an agent or a program asked for a person's decision
├── ConfigError             a settings file or variable that cannot be used
├── LogError                the event log failed; retrying with the same ids is safe
│   ├── LogBusy             another process holds the log
│   ├── LogClosed           closed meanwhile: its tenant was deleted, or the server ends
│   ├── LogFull             the disk is full
│   ├── LogReadOnly         the file, folder or disk is not writable
│   ├── LogForeign          the file is not a mnemolog log
│   ├── LogVersion          the log was written by a newer mnemolog
│   └── LogCorrupt          the log's own pages or an event's hash are wrong
├── QueueFull               too much is pending; nothing of this was accepted
├── NotReady                the server cannot accept everything now
├── SnapshotError           a derived file; a build always fixes it
│   ├── SnapshotDamaged     missing, short, or its bytes do not match the manifest
│   └── NoManifest          nothing has been published yet
├── BuildBusy               another build of this tenant is running
├── BuildRefused            the checks did not pass; the last good manifest stays
├── ModelError              a language model did not answer, or not as requested
│   └── BudgetSpent         another call would exceed the budget
├── EmbedderError           the embedding model did not answer, or not as requested
├── MirrorError             a copy on another program's server cannot be written
│   └── VectorStoreError    the copy of the vectors cannot be written or searched
├── RemoteError             a replica's destination does not answer or accept it
└── SourceError             an import's source, or a dataset, cannot be read
"""

from collections.abc import Iterable


class MnemologError(Exception):
    """The base of all errors. The message names the thing and the fix."""


class InvalidInput(MnemologError):
    pass


class InvalidName(InvalidInput):
    pass


class JunkText(InvalidInput):
    pass


class InvalidCursor(InvalidInput):
    pass


class IdConflict(InvalidInput):
    pass


class IdempotencyMismatch(InvalidInput):
    pass


class ChangedSince(InvalidInput):
    pass


class Conflict(InvalidInput):
    pass


class PlanStale(InvalidInput):
    pass


class PlanRefused(InvalidInput):
    pass


class NotFound(MnemologError):
    pass


class NeedsPerson(MnemologError):
    pass


class ConfigError(MnemologError):
    pass


class LogError(MnemologError):
    pass


class LogBusy(LogError):
    pass


class LogClosed(LogError):
    pass


class LogFull(LogError):
    pass


class LogReadOnly(LogError):
    pass


class LogForeign(LogError):
    pass


class LogVersion(LogError):
    pass


class LogCorrupt(LogError):
    pass


class QueueFull(MnemologError):
    pass


class NotReady(MnemologError):
    pass


class SnapshotError(MnemologError):
    pass


class SnapshotDamaged(SnapshotError):
    pass


class NoManifest(SnapshotError):
    pass


class BuildBusy(MnemologError):
    pass


class BuildRefused(MnemologError):
    pass


class ModelError(MnemologError):
    pass


class BudgetSpent(ModelError):
    pass


class EmbedderError(MnemologError):
    pass


class MirrorError(MnemologError):
    pass


class VectorStoreError(MirrorError):
    pass


class RemoteError(MnemologError):
    pass


class SourceError(MnemologError):
    pass


# Suggestions for unknown words


def closest(given: str, known: Iterable[str], most: int = 1, alike: float = 0.6) -> list[str]:
    """Return the known words that `given` may be a misspelling of, best first, at most `most`.

    `alike` is the least ratio of difflib, from 0 to 1.
    """
    from difflib import get_close_matches  # 5 ms, spent only on an error

    by_name = {name.casefold(): name for name in known}
    return [by_name[name] for name in get_close_matches(given.casefold(), by_name, most, alike)]


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the nearest known word; "" if none is near."""
    return "".join(f" Did you mean {name!r}?" for name in closest(given, known))
