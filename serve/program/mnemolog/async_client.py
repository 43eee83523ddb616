"""
AsyncClient: the calls of Client, awaited.

Each call runs in a thread of the client's own, so that its connections, retries and errors are
those of Client, and no HTTP library is needed. A cancelled call is no longer waited for; its
request may still be carried out.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from mnemolog.client import RETRIES, TIMEOUT_S, Client
from mnemolog.resources import Jobs, Memories, Proposals, Receipts, Tenants

CONCURRENT = 16  # requests at once, and connections
_CHUNK = 50  # items of a list per visit to a thread

P = ParamSpec("P")
T = TypeVar("T")


class _Threaded(Protocol):
    """An object with calls of its own, and threads to run them in."""

    _calls: Any
    _threads: ThreadPoolExecutor


def _awaitable(
    call: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """Return a call as a method that runs it in a thread."""

    async def run(self: _Threaded, /, *args: P.args, **named: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(call, self._calls, *args, **named))

    run.__name__, run.__doc__ = call.__name__, call.__doc__
    return run


def _iterable(
    call: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Any, P], AsyncIterator[T]]:
    """Return a generator call as a method that yields asynchronously, some items at a time."""

    async def run(self: _Threaded, /, *args: P.args, **named: P.kwargs) -> AsyncIterator[T]:
        loop = asyncio.get_running_loop()
        items = call(self._calls, *args, **named)
        while chunk := await loop.run_in_executor(self._threads, lambda: [*islice(items, _CHUNK)]):
            for item in chunk:
                yield item

    run.__name__, run.__doc__ = call.__name__, call.__doc__
    return run


class _Resource:
    """A resource of a Client, and the threads for its calls."""

    def __init__(self, calls: Any, threads: ThreadPoolExecutor) -> None:
        self._calls, self._threads = calls, threads


class AsyncMemories(_Resource):
    """`client.memories`, awaited; `list` is iterated with `async for`."""

    record = _awaitable(Memories.record)
    record_batch = _awaitable(Memories.record_batch)
    upsert = _awaitable(Memories.upsert)
    get = _awaitable(Memories.get)
    list = _iterable(Memories.list)
    patch = _awaitable(Memories.patch)
    forget = _awaitable(Memories.forget)
    restore = _awaitable(Memories.restore)
    archive = _awaitable(Memories.archive)
    supersede = _awaitable(Memories.supersede)
    link = _awaitable(Memories.link)
    history = _awaitable(Memories.history)
    history_of_key = _awaitable(Memories.history_of_key)
    lineage = _awaitable(Memories.lineage)


class AsyncReceipts(_Resource):
    """`client.receipts`, awaited."""

    list = _iterable(Receipts.list)
    get = _awaitable(Receipts.get)


class AsyncProposals(_Resource):
    """`client.proposals`, awaited."""

    list = _awaitable(Proposals.list)
    get = _awaitable(Proposals.get)
    accept = _awaitable(Proposals.accept)
    reject = _awaitable(Proposals.reject)
    undo = _awaitable(Proposals.undo)


class AsyncTenants(_Resource):
    """`client.tenants`, awaited."""

    list = _awaitable(Tenants.list)
    create = _awaitable(Tenants.create)
    get = _awaitable(Tenants.get)
    stats = _awaitable(Tenants.stats)
    delete = _awaitable(Tenants.delete)
    tokens = _awaitable(Tenants.tokens)
    create_token = _awaitable(Tenants.create_token)
    revoke_token = _awaitable(Tenants.revoke_token)


class AsyncJobs(_Resource):
    """`client.jobs`, awaited."""

    list = _iterable(Jobs.list)
    get = _awaitable(Jobs.get)
    wait = _awaitable(Jobs.wait)
    requeue = _awaitable(Jobs.requeue)


class AsyncClient:
    """A server's memory for asyncio: the calls of Client, with the same arguments and errors.

    `await` each call; `memories.list`, `receipts.list`, `jobs.list` and `export` are iterated with
    `async for`. As many requests as `concurrent` are made at once, the others wait their turn.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        tenant: str | None = None,
        home: Path | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
        tls: ssl.SSLContext | None = None,
        concurrent: int = CONCURRENT,
    ) -> None:
        """`Client` says what these are; raise as it does."""
        self._calls = Client(
            url, token, tenant=tenant, home=home, timeout_s=timeout_s, retries=retries, tls=tls
        )
        self._threads = ThreadPoolExecutor(concurrent, thread_name_prefix="mnemolog")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections and end the threads; nothing can be asked afterwards."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._calls.close()

    recall = _awaitable(Client.recall)
    rate = _awaitable(Client.rate)
    record = _awaitable(Client.record)
    record_batch = _awaitable(Client.record_batch)
    ingest = _awaitable(Client.ingest)
    ask = _awaitable(Client.ask)
    export = _iterable(Client.export)
    overview = _awaitable(Client.overview)
    health = _awaitable(Client.health)

    @cached_property
    def memories(self) -> AsyncMemories:
        return AsyncMemories(self._calls.memories, self._threads)

    @cached_property
    def jobs(self) -> AsyncJobs:
        return AsyncJobs(self._calls.jobs, self._threads)

    @cached_property
    def receipts(self) -> AsyncReceipts:
        return AsyncReceipts(self._calls.receipts, self._threads)

    @cached_property
    def tenants(self) -> AsyncTenants:
        return AsyncTenants(self._calls.tenants, self._threads)

    @cached_property
    def proposals(self) -> AsyncProposals:
        return AsyncProposals(self._calls.proposals, self._threads)
