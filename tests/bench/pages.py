"""
`make bench-pages`: the time of every page of the dashboard and every list of the API at 100,000
memories, the first time in a process and afterwards.

`--beside DIR` measures another checkout just before, so that a busy machine slows both alike. Exits
with 1 if a page takes more than 100 ms when it is asked for again.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pages_home

SIZE, MOST_MS = 100_000, 100.0
_ROOT = Path(__file__).resolve().parents[2]
_ASKED = Path(__file__).with_name("pages_asked.py")


class Took(msgspec.Struct, frozen=True):
    """The times of one address in milliseconds, as `pages_asked` prints them."""

    name: str
    first_ms: float
    warm_ms: float
    cpu_ms: float
    bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--size", type=int, default=SIZE, help="memories; default: %(default)s")
    parser.add_argument("--home", type=Path, help="made where it is not there, and kept")
    parser.add_argument("--beside", type=Path, help="a checkout to measure in the same run")
    args = parser.parse_args()
    with _home(args.home, args.size) as home:
        before = _asked(home, args.beside) if args.beside else []
        ours = _asked(home, _ROOT)
    print(f"{args.size:,} memories; load of the machine {os.getloadavg()[0]:.1f}\n")
    print(markdown(ours, before))
    if slow := [page.name for page in ours if page.warm_ms > MOST_MS]:
        sys.exit(f"over {MOST_MS:.0f} ms: {', '.join(slow)}")


@contextmanager
def _home(given: Path | None, size: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = given or Path(folder)
        if not (home / "tenants").exists():
            pages_home.made(home, size)
        yield home


def _asked(home: Path, checkout: Path) -> list[Took]:
    """Ask for all pages and lists in a fresh process with a checkout's code."""
    env = os.environ | {"PYTHONPATH": str(checkout)}
    command = [sys.executable, str(_ASKED), str(home)]
    completed = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(completed.stdout, type=list[Took])


def markdown(ours: Sequence[Took], before: Sequence[Took] = ()) -> str:
    """Return the table, with times over MOST_MS in bold."""
    pages_before = {page.name: page for page in before}
    heads = ["asked for", "first ms", "again ms", "CPU ms", "KiB"]
    heads += ["first beside", "again beside"] if before else []
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for page in ours:
        cells = [page.name, _ms(page.first_ms), _ms(page.warm_ms), _ms(page.cpu_ms)]
        cells.append(f"{page.bytes / 1024:,.0f}")
        if before:
            other = pages_before.get(page.name)
            cells += [_ms(other.first_ms), _ms(other.warm_ms)] if other else ["", ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _ms(value: float) -> str:
    text = f"{value:,.1f}" if value < 100 else f"{value:,.0f}"
    return f"**{text}**" if value > MOST_MS else text


if __name__ == "__main__":
    main()
