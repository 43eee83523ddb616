"""
Every error mnemolog raises on purpose, in one tree, so that a caller can catch as much as it means
to.

MnemologError
├── InvalidInput            what the caller sent cannot be used: mend the call
│   ├── InvalidName         a tenant's or project's name we refuse (`../x`)
│   ├── JunkText            a text that is empty, a placeholder or our own injected block
│   ├── InvalidCursor       a cursor that is not of this list
│   ├── IdConflict          this id was already used for something else
│   ├── IdempotencyMismatch this idempotency key came with another request
│   ├── ChangedSince        what the caller read has changed since
│   ├── Conflict            it is not in a state that allows this
│   ├── PlanStale           what a plan was made from has changed since
│   └── PlanRefused         a plan's checks failed: only force applies it
├── NotFound                no such memory or tenant
├── NeedsPerson             a person decides this, and an agent or a program asked for it
├── ConfigError             a settings file or variable that cannot be used
├── LogError                the event log could not do it; to try again under the same ids is safe
│   ├── LogBusy             another process holds the log
│   ├── LogClosed           it was closed meanwhile: its tenant was deleted, or the server ends
│   ├── LogFull             the disk is full
│   ├── LogReadOnly         the file, folder or disk does not let us write
│   ├── LogForeign          the file is not a mnemolog log
│   ├── LogVersion          the log was written by a newer mnemolog
│   └── LogCorrupt          the log's own pages or an event's hash are wrong
├── QueueFull               too much waits to be ingested; nothing of this was accepted
├── NotReady                the server cannot take everything now
├── SnapshotError           a derived file; always mended by a build
│   ├── SnapshotDamaged     missing, short, or its bytes do not match the manifest
│   └── NoManifest          nothing was published yet
├── BuildBusy               another build of this tenant is running
├── BuildRefused            the checks did not pass; the last good manifest stays
├── ModelError              a language model did not answer, or not with what was asked
│   └── BudgetSpent         asking it once more would cost more than is allowed
├── EmbedderError           the embedding model did not answer, or not with what was asked
├── MirrorError             a copy that another program's server holds cannot be written
│   └── VectorStoreError    nor searched: that of the vectors
├── RemoteError             the place of a replica does not answer, or does not take it
└── SourceError             an import's source, or a dataset, cannot be read
"""

from collections.abc import Iterable


class MnemologError(Exception):
    """The base of all of them. The message names the thing and the cure."""


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


# A message about a word that is none of a few known ones


def closest(given: str, known: Iterable[str], most: int = 1, alike: float = 0.6) -> list[str]:
    """Return the known words that `given` may be a typing error of, best first, at most `most`.

    `alike` is the least ratio of difflib, from 0 to 1.
    """
    from difflib import get_close_matches  # 5 ms, which only an error costs

    by_name = {name.casefold(): name for name in known}
    return [by_name[name] for name in get_close_matches(given.casefold(), by_name, most, alike)]


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the nearest known word; "" where none is near."""
    return "".join(f" Did you mean {name!r}?" for name in closest(given, known))
