"""
The tables of docs/sizing.md, computed from measurements.

    .venv/bin/python tests/bench/sizing.py

prints them. At a measured size a figure is the measurement; at any other it lies on the line
through the two nearest measured sizes and is marked `~`. The load and the prices are assumptions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

Measured = Mapping[int, float]  # a figure by the memories of a tenant

# `sizing_measured.py`, November 2026
LOG_BYTES: Measured = {1_000: 565, 10_000: 522, 100_000: 522}  # a memory
BUILT_BYTES: Measured = {1_000: 4_465, 10_000: 2_659, 100_000: 2_360}  # a memory, in one build
FULL_BUILD_S: Measured = {1_000: 2.9, 10_000: 11.0, 100_000: 100}  # CPU
QUICK_BUILD_S: Measured = {1_000: 3.0, 10_000: 3.9, 100_000: 8.8}  # CPU, 1,000 new memories
OPEN_MIB: Measured = {1_000: 3.0, 10_000: 4.0}  # of the server, for each further open tenant
OPENING_MS: Measured = {1_000: 44.5, 10_000: 55.5}  # CPU of a closed tenant's first recall
RECEIPT_BYTES = 1_270  # of the log, a recall, at 100,000 memories
TENANT_BYTES = 503_808  # one memory, built
LISTING_US = 11.4  # CPU a tenant of a home, every two seconds

# docs/benchmarks.md from 10,000 on, for BUILD_MIB at a million; others from `sizing_measured.py`
SERVER_MIB: Measured = {1_000: 67.1, 10_000: 75.8, 100_000: 79.9, 1_000_000: 113}  # one tenant open
BUILD_MIB: Measured = {1_000: 169, 10_000: 241, 100_000: 572, 1_000_000: 2_013}  # resident
RECALL_MS: Measured = {1_000: 6.25, 10_000: 8.10, 100_000: 11.2, 1_000_000: 28.7}  # CPU, auto

# the program's constants: `KEEP` of store/snapshots/manifest.py, `MOST_OPEN` of open_tenants.py
KEPT_BUILDS, MOST_OPEN = 3, 256

# assumed
RECALLS, BUILDS = 300, 4  # of a tenant a day
BUSY_S = 8 * 3_600  # in which a day's recalls come
AT_ONCE = 0.1  # share of the tenants in use at a time
LOADED = 0.5  # of a core on average, which leaves room for a peak
TENANTS_A_HOME = 5_000  # listing them then takes 3 % of a core
SLOWEST_MS = 100  # CPU of a recall; a tenant with slower recalls is too large for one server
USD_CORE, USD_GIB, USD_GB = 25.0, 3.0, 0.10  # a month: a core, memory, disk

SIZES = tuple(10**power for power in range(3, 10))
HOMES = (
    *((size, 1) for size in (10**3, 10**4, 10**5, 10**6, 10**7)),
    *((10**6, 100), (10**7, 1_000), (10**8, 10_000), (10**9, 100_000)),
    *((10**9, 1_000), (10**9, 1)),
)


def at(measured: Measured, size: float) -> float:
    """Return a figure at a size: a measurement, or a point on the line through the two nearest."""
    sizes = sorted(measured)
    if size <= sizes[0]:
        return measured[sizes[0]]
    low, high = next(((a, b) for a, b in pairwise(sizes) if size <= b), tuple(sizes[-2:]))
    return measured[low] + (measured[high] - measured[low]) * (size - low) / (high - low)


def bytes_at(measured: Measured, size: float) -> float:
    """Return the bytes of all of a tenant's memories, beyond the largest measured size at that
    size's bytes a memory.
    """
    return size * at(measured, min(size, max(measured)))


def disk_bytes(size: float, *, receipts: int = 0) -> float:
    """Return a tenant's size on disk, with its builds and receipts."""
    built = KEPT_BUILDS * bytes_at(BUILT_BYTES, size)
    return TENANT_BYTES + bytes_at(LOG_BYTES, size) + built + receipts * RECEIPT_BYTES


@dataclass(frozen=True)
class Home:
    """Memories in tenants of the same size, and the resources to serve them for a year."""

    memories: int
    tenants: int

    @property
    def size(self) -> float:
        return self.memories / self.tenants

    @property
    def recall_cores(self) -> float:
        """The average number of cores in the hours with recalls."""
        return self.tenants * RECALLS * at(RECALL_MS, self.size) / 1e3 / BUSY_S

    @property
    def build_cores(self) -> float:
        return self.tenants * BUILDS * at(QUICK_BUILD_S, self.size) / 86_400

    @property
    def servers(self) -> int:
        """The servers with a home each: recall takes one core of each, and few tenants are open."""
        return max(
            ceil(self.recall_cores / LOADED),
            ceil(self.tenants * AT_ONCE / MOST_OPEN),
            ceil(self.tenants / TENANTS_A_HOME),
        )

    @property
    def cores(self) -> int:
        return self.servers + ceil(self.build_cores / LOADED)

    @property
    def open_a_server(self) -> int:
        return ceil(self.tenants * AT_ONCE / self.servers)

    @property
    def memory_bytes(self) -> float:
        """The memory of each server: its own, the builds of open tenants as mapped files, and one
        running build.
        """
        own = at(SERVER_MIB, self.size) + (self.open_a_server - 1) * at(OPEN_MIB, self.size)
        mapped = self.open_a_server * bytes_at(BUILT_BYTES, self.size)
        return (own + at(BUILD_MIB, self.size)) * 2**20 + mapped

    @property
    def disk_bytes(self) -> float:
        return self.tenants * disk_bytes(self.size, receipts=365 * RECALLS)

    @property
    def usd(self) -> float:
        memory = self.servers * self.memory_bytes / 2**30 * USD_GIB
        return self.cores * USD_CORE + memory + self.disk_bytes / 1e9 * USD_GB

    @property
    def is_sensible(self) -> bool:
        return at(RECALL_MS, self.size) <= SLOWEST_MS


def table_of_tenants() -> Iterator[str]:
    yield row(
        *("memories", "log", "one build", "on disk", "server's memory", "CPU of a recall"),
        *("recalls/s, a core", "CPU of a full build"),
    )
    yield row(*["---"] * 8)
    for size in SIZES:
        recall_s = at(RECALL_MS, size) / 1e3
        yield row(
            f"{size:,}",
            mark(size, LOG_BYTES) + amount(bytes_at(LOG_BYTES, size)),
            mark(size, BUILT_BYTES) + amount(bytes_at(BUILT_BYTES, size)),
            mark(size, BUILT_BYTES) + amount(disk_bytes(size)),
            mark(size, SERVER_MIB) + amount(at(SERVER_MIB, size) * 2**20),
            mark(size, RECALL_MS) + duration(recall_s),
            mark(size, RECALL_MS) + short(1 / recall_s),
            mark(size, FULL_BUILD_S) + duration(at(FULL_BUILD_S, size)),
        )


def table_of_homes() -> Iterator[str]:
    yield row(
        *("memories", "tenants", "of each", "on disk", "servers", "cores", "memory of each"),
        *("CPU to build all anew", "USD a month"),
    )
    yield row(*["---"] * 9)
    for home in (Home(*other) for other in HOMES):
        first = f"{home.memories:,}", f"{home.tenants:,}", f"{home.size:,.0f}"
        disk = amount(home.disk_bytes)
        rebuilt = duration(home.tenants * at(FULL_BUILD_S, home.size))
        if home.is_sensible:
            cores = f"{home.servers:,}", f"{home.cores:,}", amount(home.memory_bytes)
            yield row(*first, disk, *cores, rebuilt, f"{home.usd:,.0f}")
        else:
            recall = duration(at(RECALL_MS, home.size) / 1e3)
            yield row(*first, disk, f"not served: {recall} a recall", "", "", rebuilt, "")


def worked(home: Home) -> Iterator[str]:
    """Yield the arithmetic of one row, one line a step."""
    size, n = home.size, home.tenants
    a_memory = f"{at(LOG_BYTES, size):,.0f} + {KEPT_BUILDS} x {at(BUILT_BYTES, size):,.0f}"
    yield (
        f"disk     {n:,} x ({TENANT_BYTES:,} + {size:,.0f} x ({a_memory}) "
        f"+ 365 x {RECALLS} x {RECEIPT_BYTES:,}) B = {amount(home.disk_bytes)}"
    )
    yield (
        f"recalls  {n:,} x {RECALLS} x {at(RECALL_MS, size):.1f} ms / {BUSY_S:,} s "
        f"= {home.recall_cores:.2f} cores"
    )
    yield (
        f"builds   {n:,} x {BUILDS} x {at(QUICK_BUILD_S, size):.1f} s / 86,400 s "
        f"= {home.build_cores:.2f} cores"
    )
    yield (
        f"servers  the most of {home.recall_cores:.2f} / {LOADED}, {n:,} x {AT_ONCE} / {MOST_OPEN} "
        f"and {n:,} / {TENANTS_A_HOME:,}, rounded up = {home.servers:,}"
    )
    builds = f"{home.build_cores:.2f} / {LOADED}, rounded up"
    yield f"cores    {home.servers:,} + {builds} = {home.cores:,}"
    many = home.open_a_server
    yield (
        f"memory   {at(SERVER_MIB, size):.0f} MiB + {many - 1:,} x {at(OPEN_MIB, size):.1f} MiB "
        f"+ {many:,} x {amount(bytes_at(BUILT_BYTES, size))} + {at(BUILD_MIB, size):.0f} MiB "
        f"= {amount(home.memory_bytes)} each"
    )
    yield (
        f"cost     {home.cores:,} x {USD_CORE:.0f} "
        f"+ {home.servers:,} x {home.memory_bytes / 2**30:.2f} GiB x {USD_GIB:.0f} "
        f"+ {home.disk_bytes / 1e9:,.1f} GB x {USD_GB:.2f} = {home.usd:,.0f} USD a month"
    )


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def mark(size: int, measured: Measured) -> str:
    return "" if size in measured else "~"


def amount(count: float) -> str:
    """Return bytes in the unit that leaves the fewest digits."""
    units = ("B", "kB", "MB", "GB", "TB")
    place = min(len(units) - 1, (len(f"{count:.0f}") - 1) // 3)
    return f"{short(count / 1_000**place)} {units[place]}"


def duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if seconds >= 2 * length or (unit == "s" and seconds >= 1):
            return f"{short(seconds / length)} {unit}"
    return f"{short(seconds * 1e3)} ms"


def short(value: float) -> str:
    """Return a number with three digits, or all before the point."""
    digits = max(0, 2 - (len(f"{value:.0f}") - 1))
    text = f"{value:,.{digits}f}" if value >= 1 else f"{value:.2g}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def blocks() -> dict[str, Sequence[str]]:
    """Return the lines of each generated part of the page, by name."""
    return {
        "tenants": [*table_of_tenants()],
        "homes": [*table_of_homes()],
        "worked": ["```text", *worked(Home(10**7, 1_000)), "```"],
    }


if __name__ == "__main__":
    for name, lines in blocks().items():
        print(f"<!-- {name} -->", *lines, "", sep="\n")
