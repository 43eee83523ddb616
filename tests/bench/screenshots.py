"""
`python tests/bench/screenshots.py FOLDER`: every page of the dashboard as PNG files, light, dark
and on a phone, of a memory with history.

Without `--home` it makes one: this repository's commits, the sample sessions of three agents, some
notes, and a few prompts of a live session. With `--home` it uses an existing one; give it a copy,
because logging in and the prompts write to it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
sys.path[:0] = [str(ROOT), str(TESTS)]

from dashboard_page import DESK, PHONE, application, end_chromium, tab  # noqa: E402

from serve.dashboard.shell import PLACES  # noqa: E402
from serve.server.open_tenants import OpenTenants  # noqa: E402
from store.home.config import Settings  # noqa: E402
from store.plans import plans  # noqa: E402

LOOKS = (("light", DESK), ("dark", DESK), ("phone", PHONE))
SESSIONS = {"claude-code": "sessions", "codex": "transcripts/codex", "gemini": "transcripts/gemini"}
DECISIONS = (
    (
        "decision",
        "We write the event log with BEGIN IMMEDIATE: a read lock that is upgraded fails.",
    ),
    ("decision", "Invoices are sent by the billing service on the first day of a month at 06:00."),
    ("preference", "Never deploy on Friday afternoon; wait for Monday's first window."),
)
PROMPTS = (
    "why do we use BEGIN IMMEDIATE when we write the event log?",
    "when are the invoices sent, and by which billing service?",
    "please deploy the shop this Friday afternoon",
    "which port does the recall server listen on?",
    "thanks, go on",
    "how are snapshots published, and why is HEAD replaced atomically?",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--home", type=Path, help="a home to look at, instead of a made one")
    parser.add_argument("--repository", type=Path, default=ROOT, help="whose commits are imported")
    parser.add_argument("--only", action="append", help="a page's name; may be given several times")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = args.home or Path(folder)
        if not (home / "tenants").exists():
            fill(home, args.repository)
        shoot(home, args.folder, args.only or ())


def fill(home: Path, repository: Path) -> None:
    """Make a memory with history and learn from it."""
    run(home, "init")
    run(home, "import", "git", str(repository))
    for host, name in SESSIONS.items():
        run(home, "import", host, str(TESTS / "data" / name))
    run(home, "import", "markdown", str(TESTS / "data" / "notes"))
    goal = ("--kind", "goal", "--project", "shop")
    run(home, "record", "Every form of the shop says what is wrong beside the field", *goal)
    for kind, text in DECISIONS:
        run(home, "record", text, "--kind", kind)
    run(home, "build", "--quick")
    for job in ("facts", "distill", "consolidate"):
        run(home, job)


def run(home: Path, *words: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MNEMOLOG_")}
    command = [sys.executable, "-P", "-m", "serve.cli", *words]
    path = os.pathsep.join((str(ROOT), str(ROOT / "serve" / "program")))
    subprocess.run(
        command,
        env=environment | {"MNEMOLOG_HOME": str(home), "PYTHONPATH": path},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def shoot(home: Path, folder: Path, only: tuple[str, ...] | list[str]) -> None:
    """Write NAME-LOOK.png for every page and look."""
    tenants = OpenTenants(Settings(home))
    app = application(tenants, lambda: time.time_ns() // 1_000)
    session = f"screenshots-{os.getpid()}"  # a session gets each memory once
    for prompt in PROMPTS:
        tell(app, session, prompt)
    tenants.get("default").notes.write()
    views = dict(pages(tenants, session))
    for look, size in LOOKS:
        with tab(app, theme="dark" if look == "dark" else "light") as page:
            page.set_viewport_size(size)
            for name, path in views.items():
                if only and name not in only:
                    continue
                page.goto(f"/t/default/{path}")
                page.wait_for_load_state("networkidle")
                page.screenshot(path=folder / f"{name}-{look}.png", full_page=True)
    end_chromium()
    tenants.close()


def tell(app: Any, session: str, prompt: str) -> None:
    """Send a prompt as the hook of an agent at work does."""
    event = {"session_id": session, "cwd": str(ROOT), "hook_event_name": "UserPromptSubmit"}
    token = {"Authorization": "Bearer the-owner's-token", "Host": "127.0.0.1:7437"}
    answer = app.test_client().post(
        "/v1/hooks/claude-code", json=event | {"prompt": prompt}, headers=token
    )
    assert answer.status_code in (200, 204), answer.text


def pages(tenants: OpenTenants, session: str) -> Iterator[tuple[str, str]]:
    """Yield each page's name and address."""
    yield from ((place.name, place.name) for place in PLACES)
    yield "search", "memories?q=why+is+HEAD+replaced+atomically"
    yield "search-nothing", "memories?q=zanzibar+xylophone&kind=decision"
    yield "asked", "lab?q=why+is+HEAD+replaced+atomically"
    yield "session", f"session?session={session}"
    opened = tenants.get("default")
    with opened.reader.view() as view:
        newest = view.snapshots.rows.take([0])[0].id
    yield "memory", f"memory/{newest}"
    if rows := opened.log.select_rows("kind = 'recalled' AND body NOT LIKE '%\"hits\":[]%'", ()):
        yield "recall", f"recall/{rows[-1][1]}"
    if waiting := plans.every(opened.log):
        yield "proposal", f"proposals/{waiting[0].id}"


if __name__ == "__main__":
    main()
