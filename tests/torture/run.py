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

MOST_WRONG = 5  # faults printed of each


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
    listed = [outcome for name in names for outcome in outcomes[name]]
    if args.json:
        for outcome in listed:
            print(json.dumps(asdict(outcome)))
    else:
        print(_table(listed, scale))
    return 0 if all(outcome.held and _is_enough(outcome, scale) for outcome in listed) else 1


def _one(name: str, scale: Scale) -> int:
    """Run one attack in this process; print each outcome as a line of JSON."""
    # a finished hook may leave a process that still writes its undelivered events
    with tempfile.TemporaryDirectory(
        prefix="mnemolog-torture-", ignore_cleanup_errors=True
    ) as folder:
        for outcome in roster.attack(name)(Path(folder), scale):
            print(json.dumps(asdict(outcome)), flush=True)
    return 0


def _apart(name: str, scale: Scale) -> list[Outcome]:
    """Run one attack in a process of its own; a failed exit is an outcome too."""
    began = time.monotonic()
    command = [sys.executable, "-P", __file__, "--one", name]
    if scale is Scale.FAST:
        command.append("--fast")
    completed = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    outcomes = [Outcome(**json.loads(line)) for line in completed.stdout.splitlines()]
    if code := completed.returncode:
        outcomes.append(Outcome(name, 0, "points", (f"the attack ended with {code}",)))
    took = time.monotonic() - began
    lost = [outcome for outcome in outcomes if not outcome.held]
    verdict = "LOST" if lost else "held"
    faults = [f"\n    {outcome.tried}: {text}" for outcome in lost for text in outcome.wrong]
    report = "".join(faults[:MOST_WRONG])  # printed at once: the table comes at the end
    print(f"{name}: {verdict}, {took:.0f} s{report}", file=sys.stderr, flush=True)
    return outcomes


def _is_enough(outcome: Outcome, scale: Scale) -> bool:
    return scale is Scale.FAST or outcome.points >= outcome.floor


def _table(outcomes: Sequence[Outcome], scale: Scale) -> str:
    width = max((len(outcome.tried) for outcome in outcomes), default=5)
    of = max((len(outcome.of) for outcome in outcomes), default=2)
    lines = [f"{'tried':<{width}}  {'points':>8}  {'of':<{of}}  {'wrong':>7}  "]
    for outcome in outcomes:
        verdict = "held" if outcome.held else "LOST"
        if outcome.is_control:
            verdict = "seen" if outcome.held else "BLIND"
        if not _is_enough(outcome, scale):
            verdict = f"TOO FEW, {outcome.floor:,} wanted"
        summary = f"{verdict}{'; ' if outcome.note else ''}{outcome.note}"
        lines.append(
            f"{outcome.tried:<{width}}  {outcome.points:>8,}  {outcome.of:<{of}}"
            f"  {len(outcome.wrong):>7,}  {summary}"
        )
        if not outcome.held:
            lines += (f"    {text}" for text in outcome.wrong[:MOST_WRONG])
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
