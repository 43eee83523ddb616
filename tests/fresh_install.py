"""
The fresh install behind `make fresh`: a new user's steps, with the wheels of a folder.

In an empty home folder, with no environment but a PATH: install the tool, record, recall, build,
connect Claude Code, answer one of its prompts, disconnect, stop, uninstall: with `mnemolog-core`,
then with `mnemolog`. Ends with exit code 1 if the prompt is not answered, if any file is left that
the user is not told to delete, or if the core takes more than 300 MB. Prints sizes and times. The
client package is also installed alone.
"""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

UV = Path(sys.executable).with_name("uv")
FACT = "The invoices of the shop are archived in the bucket acme-ledger-7 after ninety days"
Size = tuple[int, int]  # bytes and packages
LARGEST_CORE = 300_000_000  # bytes, once it was used
ASKED = "in which bucket are the invoices archived?"
# these belong to uv, not to us: it keeps them once any tool was installed
UVS = (".local/share/uv", ".local/bin", ".cache/uv")


class FreshHome:
    """An empty home folder and the steps run in it, each with its seconds."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.folder, self.wheels = folder, wheels.absolute()
        self.steps: list[tuple[str, float, float]] = []
        kept = ("PATH", "SSL_CERT_FILE", "UV_CACHE_DIR", "HTTPS_PROXY")
        self.environ = {name: os.environ[name] for name in kept if name in os.environ} | {
            "HOME": str(folder),
            "PATH": f"{folder}/.local/bin{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "80",
            "MNEMOLOG_PORT": str(free_port()),  # another memory may use the default port
        }

    def run(self, line: str, *, told: str | None = None) -> str:
        """Return a command's output; exit with an error if it fails."""
        before, start = os.times(), time.monotonic()
        done = subprocess.run(
            shlex.split(line),
            cwd=self.folder,
            env=self.environ,
            input=told,
            capture_output=True,
            text=True,
            timeout=900,
        )
        after = os.times()
        cpu_s = sum(after[2:4]) - sum(before[2:4])
        self.steps.append((line, time.monotonic() - start, cpu_s))
        if done.returncode:
            raise SystemExit(f"`{line}` failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def files(self) -> set[str]:
        """Return the files in the home, except the folders of uv."""
        found = {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*")}
        ours = {name for name in found if not name.startswith(UVS)}
        return {name for name in ours if not any(one.startswith(name) for one in UVS)}


def main(wheels: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mnemolog-fresh-") as folder:
        home = FreshHome(Path(folder).resolve(), wheels)
        taken = {name: use(home, name) for name in ("mnemolog-core", "mnemolog")}

        home.run(f"{UV} venv --quiet {home.folder}/other")
        python = f"{home.folder}/other/bin/python"
        line = f"{UV} pip install --quiet --python {python} --find-links {home.wheels}"
        home.run(f"{line} mnemolog-client")
        home.run(f'{python} -c "from mnemolog import Client"')
        client = sizes(home.folder / "other")

    for line, seconds, cpu_s in home.steps:
        short = line.replace(str(UV), "uv").replace(str(home.wheels), "dist")
        short = short.replace(str(home.folder), "~")
        print(f"{seconds:7.1f} s  {cpu_s:6.1f} s of CPU  {short[:90]}")
    for name, (installed, used, data) in taken.items():
        texts = map(in_words, (installed, used, data))
        print("{}: {}; after its first use: {}; data: {}".format(name, *texts))
    print(f"the client in a new environment: {in_words(client)}")
    print("uninstalled: nothing is left")
    if taken["mnemolog-core"][1][0] > LARGEST_CORE:
        raise SystemExit(f"mnemolog-core takes more than {LARGEST_CORE / 1e6:.0f} MB")


def use(home: FreshHome, name: str) -> tuple[Size, Size, Size]:
    """Install a package as a tool, use it, and take it out again; return the sizes of the tool,
    new and used, and of its data.
    """
    claude = home.folder / ".claude" / "settings.json"
    claude.parent.mkdir(exist_ok=True)
    claude.write_text('{"model": "opus"}\n')
    before, settings = home.files(), claude.read_bytes()
    home.run(f"{UV} tool install --quiet --find-links {home.wheels} {name}")
    tool = home.folder / ".local/share/uv/tools" / name
    installed = sizes(tool)
    home.run(f'mnemolog record "{FACT}" --kind decision')
    expect(FACT, home.run(f'mnemolog recall --json "{ASKED}"'))
    home.run("mnemolog connect claude-code --yes")
    home.run("mnemolog start")
    hooks = json.loads(claude.read_text())["hooks"]
    prompt = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "fresh",
        "transcript_path": str(home.folder / "transcript.jsonl"),
        "cwd": str(home.folder),
        "prompt": ASKED,
    }
    hook = hooks["UserPromptSubmit"][0]["hooks"][0]["command"]
    expect(FACT, home.run(hook, told=json.dumps(prompt)))
    home.run("mnemolog build --quick")
    expect(FACT, home.run(f'mnemolog recall --json "{ASKED}"'))
    used = sizes(tool)
    home.run("mnemolog disconnect claude-code --yes")
    home.run("mnemolog stop")
    home.run(f"{UV} tool uninstall --quiet {name}")
    data = home.folder / ".local/share/mnemolog"
    kept = sizes(data)
    shutil.rmtree(data)  # as docs/install.md says
    left = home.files() - before
    if left or claude.read_bytes() != settings:
        raise SystemExit(f"left behind: {sorted(left)[:9] or claude}")
    return installed, used, kept


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def sizes(folder: Path) -> Size:
    found = [path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()]
    return sum(found), sum(1 for _ in folder.rglob("*.dist-info"))


def in_words(size: Size) -> str:
    taken, packages = size
    return f"{taken / 1e6:,.1f} MB" + (f" in {packages} packages" if packages else "")


def expect(text: str, words: str) -> None:
    if text not in words:
        raise SystemExit(f"{text!r} is not in what was said:\n{words}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
