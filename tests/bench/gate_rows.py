"""
The rows of the gate: the work that two versions do in turns, and the CPU seconds of each.

Each process has its version's folder first on its path, and exits if it would import another's.
Each version works on a home that it built itself. They take turns (A B, B A, ...), so that other
load on the machine disturbs both.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import hooks
import service
from corpus import texts
from process import Server, environment, finish

SIZE = 10_000  # memories
SPELLS, TURNS = 3, 4  # servers and readers are started anew for each spell
BUILDS = 9  # turns of rows that change the home
QUERIES, WRITES, PROMPTS, COMMANDS = 20, 12, 8, 2  # of a row in a turn
ADDED = 1_000
IN_PROCESS = {"lexical": "recall by words, in process", "auto": "hybrid recall, in process"}

# a process refuses to measure code from outside its version's folder
CHECK = """
import runpy, sys
from importlib.util import find_spec
tree = sys.argv.pop(1)
for name in ("store", "serve", "pipelines", "mnemolog"):
    if not find_spec(name).origin.startswith(tree + "/"):
        sys.exit(f"{name} is not that of {tree} but {find_spec(name).origin}")
"""
COMMAND_LINE = CHECK + "runpy.run_module('serve.cli', run_name='__main__', alter_sys=True)"
READER = CHECK + "runpy.run_path(sys.argv.pop(1), run_name='__main__')"


@dataclass(frozen=True)
class Version:
    """A folder of code, and the home that it built."""

    name: str
    tree: Path
    home: Path

    @property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.tree), str(self.tree / "serve" / "program")])
        same = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "", "OPENBLAS_NUM_THREADS": "1"}
        return environment(self.home, {"PYTHONPATH": path, **same})

    def python(self, code: str, *words: str) -> list[str]:
        return [sys.executable, "-P", "-c", code, str(self.tree), *words]

    def run(self, *words: str) -> float:
        """Return the CPU seconds of a `mnemolog` command."""
        return finish(self.python(COMMAND_LINE, *words), self.env)[0]

    def serve(self) -> Server:
        command = self.python(COMMAND_LINE, "serve", "--port", "0")
        return Server(command, self.home, self.env, self.home / "token")


# a version's work in a turn; returns the CPU seconds of doing it once
Row = Callable[[Version, int], float]


class Comparison:
    """CPU seconds of two versions in turns, by row, and the names of the rows left out."""

    def __init__(self, this: Version, other: Version) -> None:
        self.this, self.other = this, other
        self.pairs: dict[str, list[tuple[float, float]]] = {}
        self.left_out: list[str] = []

    def take_turns(self, rows: Mapping[str, Row], numbers: Iterable[int]) -> None:
        """Measure all rows in each turn; the first turn is a warm-up and is not counted.

        A row that the other version cannot do, and has never done, is left out.
        """
        for place, number in enumerate(numbers):
            order = [self.this, self.other] if number % 2 else [self.other, self.this]
            for name, row in rows.items():
                spent: dict[Version, float] = {}
                for version in order if name not in self.left_out else ():
                    try:
                        spent[version] = row(version, number)
                    except SystemExit as error:  # raised by the benchmark's helpers
                        if version is self.this or name in self.pairs:
                            raise
                        self.left_out.append(name)
                        print(f"{name} is left out: {error}", file=sys.stderr)
                if place and len(spent) == 2:
                    pair = spent[self.this], spent[self.other]
                    self.pairs.setdefault(name, []).append(pair)


def measure(versions: Comparison, folder: Path) -> None:
    """Seed both homes, then compare all rows."""
    compared = [versions.this, versions.other]
    seeds = write_lines(folder, SIZE, 7)

    def seed(version: Version) -> None:
        version.home.mkdir()
        version.run("import", "jsonl", str(seeds))
        version.run("build", "--quick")

    with ThreadPoolExecutor(len(compared)) as threads:
        list(threads.map(seed, compared))
    share = SPELLS * (TURNS + 1) * QUERIES
    queries = service.some_questions(SIZE, len(IN_PROCESS) * share)
    for spell in range(SPELLS):
        print(f"... recalls and commands, {spell + 1} of {SPELLS}", file=sys.stderr)
        numbers = range(spell * (TURNS + 1), (spell + 1) * (TURNS + 1))
        with ExitStack() as stack:
            readers = {version.home: stack.enter_context(reader(version)) for version in compared}
            versions.take_turns(rows_in_process(readers, queries), numbers)
        with ExitStack() as stack:
            servers = {version.home: stack.enter_context(version.serve()) for version in compared}
            versions.take_turns(rows_of_servers(servers, queries), numbers)
    print("... imports and builds", file=sys.stderr)
    files = [write_lines(folder, ADDED, 100 + number) for number in range(BUILDS + 1)]
    building: dict[str, Row] = {
        "import of 1,000 lines": lambda version, turn: version.run(
            "import", "jsonl", str(files[turn])
        ),
        "quick build of 1,000 new memories": lambda version, _: version.run("build", "--quick"),
        "quick build with nothing new": lambda version, _: version.run("build", "--quick"),
    }
    versions.take_turns(building, range(BUILDS + 1))


def write_lines(folder: Path, count: int, seed: int) -> Path:
    """Write made-up memories in the format of `mnemolog import jsonl`."""
    path = folder / f"{seed}.jsonl"
    lines = (
        json.dumps({"id": f"g{seed}-{number}", "content": text})
        for number, text in enumerate(texts(count, seed))
    )
    path.write_text("\n".join(lines) + "\n")
    return path


@contextmanager
def reader(version: Version) -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).with_name("in_process.py")
    command = version.python(READER, str(script), str(version.home))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=version.env, stdin=pipe, stdout=pipe, text=True) as child:
        yield child  # on exit its standard input is closed, which ends it


def rows_in_process(
    readers: Mapping[Path, subprocess.Popen[str]], queries: Sequence[str]
) -> dict[str, Row]:
    # a repeated query is cheaper, so each mode has queries of its own
    share = len(queries) // len(IN_PROCESS)

    def row(mode: str, own: Sequence[str]) -> Row:
        def recall(version: Version, turn: int) -> float:
            child = readers[version.home]
            assert child.stdin is not None and child.stdout is not None
            request = {"mode": mode, "queries": own[turn * QUERIES :][:QUERIES]}
            if child.poll() is None:
                child.stdin.write(json.dumps(request) + "\n")
                child.stdin.flush()
            if not (line := child.stdout.readline()):
                child.wait()
                sys.exit(f"{version.name} has no recall that in_process.py can call")
            return float(json.loads(line)["cpu_s"]) / QUERIES

        return recall

    return {
        name: row(mode, queries[number * share :])
        for number, (mode, name) in enumerate(IN_PROCESS.items())
    }


def rows_of_servers(servers: Mapping[Path, Server], queries: Sequence[str]) -> dict[str, Row]:
    """Return the rows measured beside a server; a program's CPU includes the server's."""
    of_commands = queries[len(queries) // 2 :]  # not those that the server has answered over HTTP

    def spent(version: Version) -> float:
        seconds = servers[version.home].cpu_s()
        if seconds is None:
            sys.exit("the CPU time of a server is known on Linux only: run the gate there")
        return seconds

    def over_http(version: Version, turn: int) -> float:
        began = spent(version)
        for query in queries[turn * QUERIES :][:QUERIES]:
            servers[version.home].post("/v1/recall", {"query": query, "mode": "lexical"})
        return (spent(version) - began) / QUERIES

    def after_a_write(version: Version, turn: int) -> float:
        server, seconds = servers[version.home], 0.0
        for number in range(turn * WRITES, (turn + 1) * WRITES):
            text = service.remark(number)
            memory = server.post("/v1/memories", {"content": text})
            began = spent(version)
            answer = server.post("/v1/recall", {"query": text})
            seconds += spent(version) - began
            if memory["id"] not in [hit["id"] for hit in answer["hits"]]:
                sys.exit(f"{version.name} does not recall what was just written: {text!r}")
        return seconds / WRITES

    def prompts(version: Version, turn: int) -> float:
        client = str(version.tree / "serve" / "client.py")
        command = [*hooks.INTERPRETER, client, "claude-code", "--home", str(version.home)]
        seconds, began, outputs = 0.0, spent(version), []
        for query in queries[-(turn + 1) * PROMPTS :][:PROMPTS]:
            event = json.dumps(hooks.prompt(query, f"gate-{turn}"))
            used, output = finish(command, version.env, event)
            seconds += used
            outputs.append(output)
        if not any(outputs):
            sys.exit(f"{version.name} answers no prompt")
        return (seconds + spent(version) - began) / PROMPTS

    def at_the_command_line(version: Version, turn: int) -> float:
        began = spent(version)
        own = of_commands[turn * COMMANDS :][:COMMANDS]
        seconds = sum(version.run("recall", "--json", query) for query in own)
        return (seconds + spent(version) - began) / COMMANDS

    def print_help(version: Version, turn: int) -> float:
        return sum(version.run("--help") for _ in range(COMMANDS)) / COMMANDS

    return {
        "recall by words, over HTTP": over_http,
        "recall right after a write, over HTTP": after_a_write,
        "prompt hook, program and server": prompts,
        "`mnemolog recall`, program and server": at_the_command_line,
        "`mnemolog --help`": print_help,
    }
