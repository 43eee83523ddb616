"""
`make bench-gate`: this version's CPU time beside the last release's, row by row.

The other version is checked out into a git worktree that is removed at the end; both run from this
virtual environment (`gate_rows`). A row's ratio is the median over the turns. Its interval comes
from order statistics, which assume nothing about the distribution. A row is too slow if the whole
interval is above LIMIT. Times are never compared with a constant.

Exits with 1 if a row is too slow, with 2 if the versions could not be compared.
"""

import argparse
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gate_rows import SIZE, Comparison, Version, measure
from process import processor
from table import shown

LIMIT = 1.10
CODE = ("store", "serve", "pipelines", "pyproject.toml", "constraints.txt")
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- table of make bench-gate -->", "<!-- end of the table -->"


class NotComparable(Exception):
    """There is no other version to compare with."""


@dataclass(frozen=True)
class Result:
    """A row of the table: median CPU seconds, and the ratio of this version to the other."""

    what: str
    ours: float
    theirs: float
    ratio: float
    low: float
    high: float

    @property
    def is_slower(self) -> bool:
        return self.low > LIMIT


def judge(title: str, pairs: Sequence[tuple[float, float]]) -> Result:
    """Return the row of `pairs`, the CPU seconds of this version and of the other.

    The interval is that of the median ratio, at 95 %. Raise ValueError for fewer than six pairs:
    their interval has no bounds.
    """
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    count = len(ratios)
    if count < 6:
        raise ValueError(f"{title}: {count} pairs are too few, take six or more")
    tail, rank = 1, 0  # tail / 2**count: how likely at most `rank` ratios are below the true median
    while (tail + math.comb(count, rank + 1)) / 2**count <= 0.025:
        rank += 1
        tail += math.comb(count, rank)
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    median = statistics.median(ratios)
    return Result(title, ours, theirs, median, ratios[rank], ratios[count - 1 - rank])


def base(root: Path, page: str, override: str | None) -> str:
    """Return the version to compare with: `override`, the newest tag `v*` before HEAD, or the
    commit that the table of `page` measured; raise NotComparable if there is none.
    """
    if override:
        return override
    released = ["--list", "v*", "--merged", "HEAD", "--no-contains", "HEAD"]
    # a candidate, v0.2.0-rc1, is older than its release
    order = ["-c", "versionsort.suffix=-", "tag", "--sort=-version:refname"]
    if tags := git(root, *order, *released).split():
        return tags[0]
    if commit := re.search(r"^Commit `([0-9a-f]{7,40})`", page.partition(BEGIN)[2], re.MULTILINE):
        return commit[1]
    raise NotComparable(
        "there is no tag v* and no commit in docs/benchmarks.md: make bench-gate AGAINST=COMMIT"
    )


@contextmanager
def worktree(root: Path, ref: str, folder: Path) -> Iterator[Path]:
    """Check out a commit into `folder` while this context is open; raise NotComparable if the clone
    does not have it.
    """
    completed = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"],
        stdout=subprocess.DEVNULL,
    )
    if completed.returncode:
        raise NotComparable(
            f"this clone does not have {ref}: `git fetch --unshallow --tags` gets it, or name a "
            "commit that it has: make bench-gate AGAINST=COMMIT"
        )
    git(root, "worktree", "add", "--quiet", "--detach", str(folder), ref)
    try:
        yield folder
    finally:
        git(root, "worktree", "remove", "--force", str(folder))


def git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def last_change(root: Path, ref: str) -> str:
    """Return the short hash of the last commit up to `ref` that changed the product's code."""
    return git(root, "log", "-1", "--abbrev=8", "--format=%h", ref, "--", *CODE)


def report(results: Sequence[Result], versions: Comparison, against: str) -> str:
    """Return the table in Markdown, below a line about the commits and the machine."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    lines = [
        f"Commit `{versions.this.name}` on {day}, compared with {against}, {SIZE:,} memories. "
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}.",
        "",
        "| what | this version, CPU | the other, CPU | ratio | 95 % interval | |",
        "|---|---|---|---|---|---|",
    ]
    for row in results:
        times = " | ".join(shown(seconds * 1e3, "ms") for seconds in (row.ours, row.theirs))
        verdict = "**slower**" if row.is_slower else ""
        lines.append(
            f"| {row.what} | {times} | {row.ratio:.2f} | {row.low:.2f} to {row.high:.2f} "
            f"| {verdict} |"
        )
    if versions.left_out:
        lines.append(f"\nLeft out, as {against} cannot do it: {', '.join(versions.left_out)}.")
    return "\n".join(lines)


def rewrite(page: str, table: str) -> str:
    """Return the page with `table` between its two marks; raise NotComparable unless it has each
    mark once.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise NotComparable(f"docs/benchmarks.md needs the lines {BEGIN} and {END}, once each")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def compare(override: str | None, is_written: bool) -> list[Result]:
    """Measure both versions, print the table and, if `is_written`, write it into the page."""
    page = PAGE.read_text()
    rewrite(page, "")  # a page without the marks fails before minutes of measuring
    ref = base(ROOT, page, override)
    changes = git(ROOT, "status", "--porcelain", "--", *CODE)
    if changes and is_written:
        raise NotComparable("--write names the commit that was measured: commit your changes first")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        with worktree(ROOT, ref, folder / "code") as code:
            commit = last_change(ROOT, ref)
            against = f"{ref} (`{commit}`)" if ref.startswith("v") else f"`{commit}`"
            this = last_change(ROOT, "HEAD") + (" with changes" if changes else "")
            versions = Comparison(
                Version(this, ROOT, folder / "this"), Version(commit, code, folder / "other")
            )
            measure(versions, folder)
    results = [judge(name, pairs) for name, pairs in versions.pairs.items()]
    table = report(results, versions, against)
    print(table)
    if is_written and not any(row.is_slower for row in results):  # never a slow baseline
        PAGE.write_text(rewrite(PAGE.read_text(), table))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--against", metavar="REF", help="a tag or commit; default: last release")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    options = parser.parse_args()
    try:
        results = compare(options.against, options.write)
    # SystemExit: raised by the benchmark's helpers if a measurement fails
    except (NotComparable, SystemExit, subprocess.CalledProcessError) as error:
        print(f"bench-gate: {error}", file=sys.stderr)
        return 2
    slower = [row for row in results if row.is_slower]
    for row in slower:
        print(
            f"bench-gate: {row.what} takes {row.ratio:.2f} times the CPU, at least {row.low:.2f}: "
            f"more than {LIMIT:.2f}",
            file=sys.stderr,
        )
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
