"""
`make bench`: the cost of search, builds and the server, compared with others in the same run.

Each part runs at each size in a process of its own, so that none finds another's memory. Code in
that process is timed in CPU seconds of all threads, in turns with its rivals; the server and the
builds in CPU seconds of their own processes, and in wall time if a user waits for them. Prints one
table and writes it, the goals and a plot to bench-results/.
"""

import argparse
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path

import dense
import goals
import growth
import lexical
import pmb
import service
import table
from figure import Figure, Note
from process import processor

Part = Callable[[int], Iterator[Figure | Note]]

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("lexical", "dense", "service", "pmb")
PACKAGES = ("numpy", "pyarrow", "numkong", "rank-bm25", "bm25s", "apsw", "lancedb", "dagster")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--sizes", default="1000,10000,100000", help="memories, comma-separated")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may repeat")
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results", help="folder")
    parser.add_argument(
        "--pmb", type=Path, default=ROOT / ".venv-pmb", help="virtual environment with pmb-ai"
    )
    parser.add_argument("--soak", type=float, default=60.0, help="seconds; default: %(default)g")
    args = parser.parse_args()
    sizes = [int(size) for size in args.sizes.split(",")]
    # one thread for matrix products, as in the server; no log output of LanceDB
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "LANCE_LOG": "error"}
    rows = [row for name, part in parts(args) for size in sizes for row in alone(name, part, size)]
    figures = [row for row in rows if isinstance(row, Figure)]
    notes = list(dict.fromkeys(row.text for row in rows if isinstance(row, Note)))
    args.out.mkdir(parents=True, exist_ok=True)
    report = "\n\n".join(
        part
        for part in (
            machine(),
            table.markdown(figures),
            growth.tenfold(figures),
            goals.markdown(figures),
            listed(notes),
        )
        if part
    )
    (args.out / "bench.md").write_text(report + "\n")
    growth.draw(figures, args.out / "bench.png")
    print(report)


def parts(args: argparse.Namespace) -> Iterator[tuple[str, Part]]:
    """Yield the requested parts by name."""
    parts_: dict[str, Part] = {
        "lexical": lexical.figures,
        "dense": dense.figures,
        "service": partial(service.figures, soak_s=args.soak),
        "pmb": partial(pmb.figures, environment=args.pmb),
    }
    for name in args.only or PARTS:
        yield name, parts_[name]


def alone(name: str, part: Part, size: int) -> list[Figure | Note]:
    """Measure a part at a size in a fresh process."""
    print(f"... {name}, {size:,} memories", file=sys.stderr)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, part, size).result()


def measured(part: Part, size: int) -> list[Figure | Note]:
    return list(part(size))


def machine() -> str:
    """Return a line about the machine and the packages, and one with the command."""
    versions = [f"{name} {installed}" for name in PACKAGES if (installed := _version(name))]
    command = shlex.join(["python", "tests/bench/run.py", *sys.argv[1:]])
    return (
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}, {', '.join(versions)}.\n\n`{command}`"
    )


def listed(notes: Sequence[str]) -> str:
    return "\n".join(f"- {note}" for note in notes)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
