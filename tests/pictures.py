"""
The pictures of README and docs, made by `make pictures`: an agent's prompt with the notes that the
hook injected, and the dashboard, each from a real memory in a temporary home.

Pass the output folder. The dashboard's are left out if no Chromium is installed.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urljoin

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

MEMORIES = (
    ("The invoices of the shop are archived in the bucket acme-ledger-7 after ninety days", "fact"),
    ("We deploy to eu-west-1 because the customers' data must stay in the EU", "decision"),
    ("Use pnpm here, never npm: the lock file is pnpm's", "preference"),
    ("The login test failed at midnight: inject the clock instead of reading it twice", "lesson"),
)
ASKED = "in which bucket are the invoices archived?"
PAGES = {"dashboard": "", "memories": "memories?q=where+are+the+invoices"}
SIZE = {"width": 1280, "height": 900}
# like rich's, without the fonts that it would load from another host
SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>A prompt, and the notes that mnemolog added to it</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, monospace; }}
{styles}
</style>
<defs>{lines}</defs>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
<g transform="translate({terminal_x}, {terminal_y})">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mnemolog-pictures-") as home:
        environ = {**os.environ, "MNEMOLOG_HOME": home, "MNEMOLOG_PORT": str(free_port())}
        for text, kind in MEMORIES:
            mnemolog(environ, "record", text, "--kind", kind, "--no-project")
        mnemolog(environ, "build", "--quick")
        event = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "picture",
            "cwd": home,
            "prompt": ASKED,
        }
        answer = json.loads(mnemolog(environ, "hook", "claude-code", told=json.dumps(event)))
        notes = answer["hookSpecificOutput"]["additionalContext"]
        (folder / "agent.svg").write_text(terminal(notes), encoding="utf-8")
        mnemolog(environ, "start")
        try:
            photograph(environ, folder)
        finally:
            mnemolog(environ, "stop")


def terminal(notes: str) -> str:
    """Return a picture of a terminal: a prompt, and the context injected with it."""
    console = Console(record=True, width=92, file=open(os.devnull, "w"), highlight=False)
    console.print(Text(f"> {ASKED}", style="bold white"))
    console.print()
    console.print(Text("mnemolog's hook adds to the prompt, without any model:", style="#8b949e"))
    for line in notes.splitlines():
        is_note = any(text[:30] in line for text, _ in MEMORIES)
        style = "#7ee787" if is_note else "#8b949e"
        console.print(Padding(Text(line, style=style), (0, 0, 0, 2)))
    made = console.export_svg(title="", code_format=SVG)
    return re.sub(r"terminal-\d+", "agent", made)


def photograph(environ: dict[str, str], folder: Path) -> None:
    """Write a picture of each page, light and dark."""
    if (browser := shutil.which("chromium")) is None:
        print("no Chromium here: the dashboard's pictures are left out")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            context = chromium.new_context(viewport=SIZE, color_scheme=scheme)
            page = context.new_page()
            login = json.loads(mnemolog(environ, "dashboard", "--no-open", "--json"))["url"]
            page.goto(login)
            for name, path in PAGES.items():
                answer = page.goto(urljoin(login, f"/t/default/{path}"))
                if answer is None or not answer.ok:
                    raise SystemExit(f"the page {path!r} was not found")
                page.screenshot(path=folder / f"{name}-{scheme}.png")
        chromium.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def mnemolog(environ: dict[str, str], *words: str, told: str = "") -> str:
    command = [sys.executable, "-P", "-m", "serve.cli", *words]
    done = subprocess.run(
        command, env=environ, input=told, capture_output=True, text=True, timeout=240
    )
    if done.returncode:
        raise SystemExit(f"`mnemolog {' '.join(words)}` failed: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
