"""The processes of a soak: a client that recalls, one that writes, one that forgets."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import numpy as np
from client import Client
from corpus import WORDS, questions, texts

WRITTEN = "soak"  # prefix of the ids of new memories
RATE = 200  # memories written a second
_SINGLY = 3  # written one by one, then the others that are due in one request
_MOST = 1_000  # memories a request
_FORGET_S = 0.1  # between two memories forgotten
_EVERY_FORGOTTEN = 20  # one in so many is forgotten, new or old
_ASKED_FROM = 5_000  # memories that questions are taken from


@dataclass(frozen=True)
class Shared:
    """The state that all see: the number of acknowledged memories, and the end flag."""

    acknowledged: "Synchronized[int]"
    is_over: "Synchronized[int]"


@dataclass(frozen=True)
class Done:
    """A write or a forget: its memory, start and end; `problem` is set if it failed."""

    id: str
    began: float
    ended: float
    problem: str = ""


_BEHIND = "not found by their words yet"  # in a notice of recall while it indexes new memories


@dataclass(frozen=True)
class Asked:
    """A recall: the memory it was about ("" for none in particular) and the ids of its hits.

    `is_behind` is True if it reported that new memories are not indexed yet.
    """

    about: str
    began: float
    ended: float
    found: tuple[str, ...] = ()
    manifest: int | None = None
    problem: str = ""
    is_behind: bool = False


_shared: Shared


def share(shared: Shared) -> None:
    """Keep the shared state, which can be passed to a process only at its start."""
    global _shared
    _shared = shared


def ticket(number: int) -> str:
    """Return the beginning of a new memory, with a number of its own."""
    return f"Ticket {number * 104_729 + 17}"


def content(number: int) -> str:
    words = np.random.default_rng(number).integers(200, len(WORDS), 12)
    return f"{ticket(number)} on {' '.join(WORDS[words])}"


def recall(number: int, port: int, token: str, size: int) -> list[Asked]:
    """Recall without a pause: new memories, forgotten ones, and any others."""
    chance = random.Random(number)
    corpus = list(islice(texts(size), _ASKED_FROM))
    anything = questions(corpus, 500, seed=number)
    client = Client(port, token)
    recalls: list[Asked] = []
    while not _shared.is_over.value:
        recalls.append(_timed_recall(client, *_question(chance, corpus, anything)))
    client.close()
    return recalls


def _question(
    chance: random.Random, corpus: list[str], anything: list[str]
) -> tuple[str, str, str]:
    """Return the id of the memory a question is about, the question, and the mode."""
    acknowledged = _shared.acknowledged.value
    kind = chance.random()
    if acknowledged and kind < 0.25:  # one of the newest
        number = acknowledged - 1 - chance.randrange(min(acknowledged, 5))
    elif acknowledged and kind < 0.4:  # any, often one of those that are forgotten
        number = chance.randrange(acknowledged)
        number -= number % _EVERY_FORGOTTEN if chance.random() < 0.5 else 0
    elif kind < 0.5:
        number = chance.randrange(len(corpus) // _EVERY_FORGOTTEN + 1) * _EVERY_FORGOTTEN
        return f"m{number}", corpus[number % len(corpus)], chance.choice(("auto", "lexical"))
    else:
        return "", chance.choice(anything), chance.choice(("auto", "lexical"))
    return f"{WRITTEN}{number}", ticket(number), "auto"


def _timed_recall(client: Client, about: str, query: str, mode: str) -> Asked:
    began = time.monotonic()
    try:
        body = {"query": query, "mode": mode}
        while (answered := client.asked("POST", "/v1/recall", body))[0] == 503:
            time.sleep(float(client.answered["Retry-After"]))  # too many requests at once
            began = time.monotonic()
        status, reply = answered
    except OSError as error:
        return Asked(about, began, time.monotonic(), problem=repr(error))
    ended = time.monotonic()
    if status != 200:
        return Asked(about, began, ended, problem=f"{status} {reply[:200]!r}")
    answer = json.loads(reply)
    ids = tuple(hit["id"] for hit in answer["hits"])
    others = [notice for notice in answer.get("notices", ()) if _BEHIND not in notice]
    problem = f"degraded: {others}" if others else ""
    is_behind = answer["degraded"] and not others
    return Asked(about, began, ended, ids, answer["manifest"], problem, is_behind)


def write(port: int, token: str) -> list[Done]:
    """Write RATE memories a second, some one by one and the others that are due in one request."""
    client = Client(port, token)
    writes: list[Done] = []
    start = time.monotonic()
    while not _shared.is_over.value:
        for _ in range(_SINGLY):
            writes += _written(client, len(writes), 1)
        due = int((time.monotonic() - start) * RATE) - len(writes)
        if due > 1:
            writes += _written(client, len(writes), min(due, _MOST))
        time.sleep(max(0.0, start + len(writes) / RATE - time.monotonic()))
    client.close()
    return writes


def _written(client: Client, first: int, count: int) -> list[Done]:
    drafts: list[dict[str, Any]] = [
        {"id": f"{WRITTEN}{number}", "content": content(number)}
        for number in range(first, first + count)
    ]
    path, body = "/v1/memories", drafts[0]
    if count > 1:
        path, body = "/v1/memories/batch", {"memories": drafts}
    began = time.monotonic()
    try:
        status, answer = client.asked("POST", path, body)
        problem = "" if status < 400 else f"{status} {answer[:200]!r}"
    except OSError as error:
        problem = repr(error)
    ended = time.monotonic()
    _shared.acknowledged.value = first + count
    return [Done(str(draft["id"]), began, ended, problem) for draft in drafts]


def forget(home: Path, size: int) -> list[Done]:
    """Forget some new and some old memories, from outside the server."""
    from store.home import tenant as tenants
    from store.log.commands import forget as forgotten
    from store.log.event_log import EventLog

    writes: list[Done] = []
    with EventLog(tenants.tenant(home).log) as log:
        for id_ in _forgettable(size):
            began = time.monotonic()
            forgotten(log, id_, time.time_ns() // 1_000)
            writes.append(Done(id_, began, time.monotonic()))
    return writes


def _forgettable(size: int) -> Iterator[str]:
    number = 0
    while not _shared.is_over.value:
        time.sleep(_FORGET_S)
        if number * _EVERY_FORGOTTEN < min(size, _ASKED_FROM):
            yield f"m{number * _EVERY_FORGOTTEN}"
        if number * _EVERY_FORGOTTEN < _shared.acknowledged.value:
            yield f"{WRITTEN}{number * _EVERY_FORGOTTEN}"
        number += 1
