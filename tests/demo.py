"""
The demo behind `make demo`: this repository's own history, sample sessions of three agents and some
notes, remembered, queried, and learnt from.

Everything is done as a user would do it, through the command line and over HTTP; the memory lies in
`.demo` and is recreated each time. Ends with exit code 1 if a question finds nothing.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".demo"
MNEMOLOG = Path(sys.executable).with_name("mnemolog")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("MNEMOLOG_")},
    "MNEMOLOG_HOME": str(HOME),
}
QUESTIONS = (
    "why do we BEGIN IMMEDIATE?",
    "which port does the recall server listen on?",
    "which formatter do we use?",
    "why is HEAD replaced atomically?",
    "why are snapshots Arrow files and not pickle?",
    "why did the login test of the shop fail at midnight?",
    "what is the capital of Mongolia?",
)
SESSIONS = {"claude-code": "sessions", "codex": "transcripts/codex", "gemini": "transcripts/gemini"}
NOTED = (  # by two people, independently
    "Run the migrations before the deploy, never after it.",
    "run the migrations **before** the deploy; never after it",
)
UNANSWERABLE = QUESTIONS[-1]
LINES = 14  # of a job's proposals

console = Console(highlight=False)


def main() -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    title("1. Import: this repository's history, sessions of three agents, some notes")
    mnemolog("init")
    if (ROOT / ".git").exists():
        mnemolog("import", "git", str(ROOT))
    else:
        console.print("no .git here (an archive?): the history is left out")
    for host, folder in SESSIONS.items():
        mnemolog("import", host, str(ROOT / "tests" / "data" / folder))
    mnemolog("import", "markdown", str(ROOT / "tests" / "data" / "notes"))
    for text in NOTED:
        mnemolog("record", text, "--kind", "preference")
    title("2. Build: Dagster makes the snapshots, checks them, publishes a manifest")
    mnemolog("build")
    title("3. Ask, over HTTP")
    with subprocess.Popen(
        [MNEMOLOG, "serve", "--port", "0"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            url = listening(server)
            found = [ask(url, question) for question in QUESTIONS]
        finally:
            server.terminate()
    expected = [question != UNANSWERABLE for question in QUESTIONS]
    if found != expected:
        sys.exit("the demo did not go as it should: see the answers above")
    title("4. Learn, without a model: each change is a plan, and every plan can be undone")
    for job in (("facts",), ("distill",), ("reflect",), ("consolidate", "preview")):
        mnemolog(*job, lines=LINES)
    mnemolog("facts", "list")
    mnemolog("plans")
    title("What next")
    console.print(
        "  In a repository of yours:\n"
        f"    {MNEMOLOG.relative_to(ROOT)} import git . --build\n"
        f'    {MNEMOLOG.relative_to(ROOT)} recall "why did we ..."\n'
        f"    {MNEMOLOG.relative_to(ROOT)} connect      bring it to your agents\n"
        f"    {MNEMOLOG.relative_to(ROOT)} dashboard    the memory in your browser\n"
        f"    {MNEMOLOG.relative_to(ROOT)} serve        the server that hooks and programs ask\n"
        f"    {MNEMOLOG.relative_to(ROOT)} ui           what was built, from what, and the checks\n"
    )


def title(text: str) -> None:
    console.print(f"\n[bold]{escape(text)}[/bold]\n")


def mnemolog(*arguments: str, lines: int | None = None) -> None:
    """Run a command and show its output, or only the first `lines` of it."""
    console.print(f"[dim]$ mnemolog {' '.join(arguments).replace(str(ROOT), '.')}[/dim]")
    output = None if lines is None else subprocess.PIPE
    done = subprocess.run(
        [MNEMOLOG, *arguments], env=ENVIRONMENT, cwd=ROOT, check=False, stdout=output, text=True
    )
    if done.returncode:
        sys.exit(f"mnemolog {arguments[0]} ended with {done.returncode}")
    if lines is not None:
        said = done.stdout.splitlines()
        console.print("\n".join(said[:lines]), markup=False)
        if len(said) > lines:
            console.print(f"[dim]  ... and {len(said) - lines} lines more[/dim]")


def listening(server: "subprocess.Popen[str]") -> str:
    """Return the server's address from its first output line."""
    began = time.perf_counter()
    line = server.stdout.readline() if server.stdout else ""
    match = re.search(r"http://\S+", line)
    if match is None:
        sys.exit("the server did not start: try `mnemolog serve`")
    url = match[0]
    console.print(f"[dim]server ready at {url} in {time.perf_counter() - began:.1f} s[/dim]")
    return url


def ask(url: str, question: str) -> bool:
    """Ask one question, show the hits and the reasons; return True if answered."""
    body = json.dumps({"query": question, "top_k": 2, "explain": True}).encode()
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {(HOME / 'token').read_text()}",
    }
    request = urllib.request.Request(f"{url}/v1/recall", body, headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        answer = json.load(response)
    console.print(f"\n[bold cyan]{question}[/bold cyan]  [dim]{answer['took_ms']:.1f} ms[/dim]")
    for hit in answer["hits"]:
        show(hit)
    if not answer["hits"]:
        console.print(f"  nothing recalled. {answer['hint']}")
    if question == UNANSWERABLE:
        return any(not hit.get("unsure") for hit in answer["hits"])
    return bool(answer["hits"])


def show(hit: dict) -> None:
    text = " ".join(hit["text"].split())
    console.print(Padding(escape(text[:240] + ("..." if len(text) > 240 else "")), (0, 0, 0, 2)))
    why = hit["why"]
    channels = ", ".join(f"{name} #{one['rank']}" for name, one in why["channels"].items())
    words = " ".join(why["words"])
    console.print(
        f"  [dim]{hit['kind']} from {hit.get('source') or hit.get('agent')}, {hit['at'][:10]}; "
        f"confidence {hit['confidence']:.2f}; {channels}; words: {escape(words)}[/dim]"
    )


if __name__ == "__main__":
    main()
