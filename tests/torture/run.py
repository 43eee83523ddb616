"""
make torture: attack the memory in every way we know, and print one table of what was lost.

    python -P tests/torture/run.py [--fast] [--only NAME ...] [--jobs N] [--json]

Each attack runs in a process and an empty folder of its own, those that measure times one by one
after the others. The exit code is 1 where something was lost or a control lost nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "serve" / "program"), str(ROOT)]

from torture import roster  # noqa: E402
from torture.outcome import Outcome, Scale  # noqa: E402

MOST_WRONG = 5  # of what went wrong, printed of each


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=roster.NAMES, default=[])
    parser.add_argument("--fast", action="store_true", help="as `make test` does it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON Lines")
    parser.add_argument("--one", choices=roster.NAMES, help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    scale = Scale.FAST if args.fast else Scale.FULL
    if args.one:
        return _one(args.one, scale)
    names = args.only or roster.NAMES
    beside = [name for name in names if name not in roster.ALONE]
    with ThreadPoolExecutor(args.jobs) as pool:
        outcomes = dict(
            zip(beside, pool.map(lambda name: _apart(name, scale), beside), strict=True)
        )
    for name in names:
        if name not in outcomes:
            outcomes[name] = _apart(name, scale)
    found = [one for name in names for one in outcomes[name]]
    if args.json:
        for one in found:
            print(json.dumps(asdict(one)))
    else:
        print(_table(found, scale))
    return 0 if all(one.held and _is_enough(one, scale) for one in found) else 1


def _one(name: str, scale: Scale) -> int:
    """Run one attack in this process; a line of JSON each outcome."""
    # a hook that has ended may leave a process that still writes what it could not deliver
    with tempfile.TemporaryDirectory(
        prefix="mnemolog-torture-", ignore_cleanup_errors=True
    ) as folder:
        for one in roster.attack(name)(Path(folder), scale):
            print(json.dumps(asdict(one)), flush=True)
    return 0


def _apart(name: str, scale: Scale) -> list[Outcome]:
    """Run one attack in a process of its own; one that ends badly is an outcome too."""
    began = time.monotonic()
    command = [sys.executable, "-P", __file__, "--one", name]
    if scale is Scale.FAST:
        command.append("--fast")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    found = [Outcome(**json.loads(line)) for line in done.stdout.splitlines()]
    if done.returncode:
        found.append(Outcome(name, 0, "points", (f"the attack ended with {done.returncode}",)))
    took = time.monotonic() - began
    verdict = "held" if all(one.held for one in found) else "LOST"
    lost = [f"\n    {one.tried}: {text}" for one in found if not one.held for text in one.wrong]
    told = "".join(lost[:MOST_WRONG])  # at once: the table comes when all have ended
    print(f"{name}: {verdict}, {took:.0f} s{told}", file=sys.stderr, flush=True)
    return found


def _is_enough(one: Outcome, scale: Scale) -> bool:
    return scale is Scale.FAST or one.points >= one.floor


def _table(found: Sequence[Outcome], scale: Scale) -> str:
    width = max((len(one.tried) for one in found), default=5)
    of = max((len(one.of) for one in found), default=2)
    lines = [f"{'tried':<{width}}  {'points':>8}  {'of':<{of}}  {'wrong':>7}  "]
    for one in found:
        verdict = "held" if one.held else "LOST"
        if one.is_control:
            verdict = "seen" if one.held else "BLIND"
        if not _is_enough(one, scale):
            verdict = f"TOO FEW, {one.floor:,} wanted"
        told = f"{verdict}{'; ' if one.note else ''}{one.note}"
        lines.append(
            f"{one.tried:<{width}}  {one.points:>8,}  {one.of:<{of}}  {len(one.wrong):>7,}  {told}"
        )
        if not one.held:
            lines += (f"    {text}" for text in one.wrong[:MOST_WRONG])
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
