"""
Profiles: where a build and a series of recalls spend their time, by py-spy.

`python tests/bench/profiling.py --size 100000` makes a home; `--home FOLDER` uses an imported one.
It prints the functions that take the most time in the build, in lexical recalls and in hybrid ones:
by themselves, with the native code they call; and our functions with all they call. py-spy samples
wall time, not CPU time: on a busy machine the wait for the CPU is counted too.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import builds
import service
from corpus import texts
from memory import family
from process import COMMAND, Server, environment

RATE = 250  # samples a second
SHOWN = 20
_WAITING = ("Condition.wait", "wait (")
ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--size", type=int, default=10_000, help="memories")
    parser.add_argument("--home", type=Path, help="a home that holds them; it is built")
    parser.add_argument("--new", type=int, help="memories added first: profile what these cost")
    parser.add_argument("--recalls", type=int, default=1_000)
    parser.add_argument("--quick", action="store_true", help="mnemolog build --quick")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = args.home or Path(folder)
        if args.home is None:
            builds.added(home, texts(args.size), "m")
        if args.new:
            builds.added(home, texts(args.new, seed=os.getpid()), f"p{os.getpid()}-")
        words = ["build", *(["--quick"] if args.quick else [])]
        report(f"a build of {args.new or args.size:,} memories", build(home, words))
        for mode in ("lexical", "auto"):
            report(f"{args.recalls:,} recalls, {mode}", recalls(home, args, mode))


def build(home: Path, words: Sequence[str]) -> list[str]:
    out = home / "profile.txt"
    command = [*spy(out), "--subprocesses", "--", *COMMAND, *words]
    subprocess.run(command, env=environment(home), check=True, stdout=subprocess.DEVNULL)
    return out.read_text().splitlines()


def recalls(home: Path, args: argparse.Namespace, mode: str) -> list[str]:
    """Return the stacks of a server's requests, without its start."""
    out = home / "profile.txt"
    command = [*spy(out), "--", *COMMAND, "serve", "--port", "0"]
    with Spied(command, home, environment(home), home / "token") as server:
        for query in service.some_questions(args.size, args.recalls):
            server.post("/v1/recall", {"query": query, "mode": mode})
    return [line for line in out.read_text().splitlines() if "service (waitress/channel" in line]


class Spied(Server):
    """A server under py-spy, which writes its samples when the server has ended."""

    def _end(self) -> None:
        for pid in family(self._process.pid)[1:]:
            os.kill(pid, signal.SIGTERM)
        self._process.wait()


def spy(out: Path) -> list[str]:
    program = Path(sys.executable).with_name("py-spy")
    return [str(program), "record", "--rate", str(RATE), "--format", "raw", "--output", str(out)]


def report(title: str, stacks: Iterable[str]) -> None:
    """Print the functions of stacks, each a line of frames from the outermost and a count."""
    alone: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for line in stacks:
        frames, _, count = line.rpartition(" ")
        calls = [frame for frame in frames.split(";") if frame.partition(" ")[0] != "process"]
        names = [_short(frame) for frame in calls if frame]
        if not names or names[-1].startswith(_WAITING):
            continue
        alone[names[-1]] += int(count)
        within.update(dict.fromkeys(filter(_is_ours, names), int(count)))
    total = alone.total()
    print(f"\n{title}: {total / RATE:.1f} s seen\n")
    for head, counts in (("by itself", alone), ("ours, with what it calls", within)):
        print(f"{head:>24}")
        for name, seen in counts.most_common(SHOWN):
            print(f"{seen / total:24.1%}  {name}")


def _is_ours(name: str) -> bool:
    return any(f"({folder}/" in name for folder in ("store", "serve", "pipelines"))


def _short(frame: str) -> str:
    """Return `function (file)` without the line number, with our paths relative to the root."""
    name, _, place = frame.partition(" (")
    path = place.rpartition(":")[0] or place.rstrip(")")
    return f"{name} ({path.removeprefix(f'{ROOT}/')})"


if __name__ == "__main__":
    main()
