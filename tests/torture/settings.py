"""
Spoilt settings of ours and of agent hosts: each is edited and restored, or left alone.

For any content of a host's file, `connect` refuses it with an error of ours and changes no byte of
any file, or `disconnect` restores every byte and mode. `config.toml` is read, or refused by name.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from hosts_home import PLACES, install, machine, settle, tree
from torture import spoiling
from torture.apart import Answer, Apart
from torture.outcome import Outcome, Scale

from serve.connect import connecting
from serve.hosts import HOSTS
from store.home import config
from store.home.errors import MnemologError

Tree = dict[str, tuple[bytes | None, int]]
NOW = 1_790_000_000_000_000
MOST_S, MOST_GROWN = 10.0, 200 << 20
_CONFIG = b"""tenant = "default"
port = 7437
layers = ["parts", "dates"]  # removed, and still read
[llm]
cheap = "ollama/llama3"
usd_a_day = 1.5
[profiles.balanced]
importance = 0.05
"""

Given = tuple[str, str, str]  # the action, the host, and the user's folder


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    user = folder / "anna"
    user.mkdir()
    with Apart(_act, ("hosts", "codex", str(user))) as apart:
        yield _control(user, apart)
        yield _spoilt(user, apart, scale)
        yield _strange(user, apart, scale)
        yield _own(folder / "home", apart, scale)


def _act(job: Given) -> list[str]:
    """Connect and disconnect a host, or read our own settings, in a process of its own.

    Return the paths that differ from before.
    """
    action, name, folder = job
    user = Path(folder)
    before = tree(user)
    if action == "config":
        config.load(environ={"MNEMOLOG_HOME": folder})
        return _unlike(before, user)
    host, mine, ours = HOSTS[name], machine(user), install(user)
    try:
        connecting.apply_plan(connecting.plan_connection(host, mine, ours), NOW)
    except MnemologError:
        if problem := _unlike(before, user):
            return problem
        raise
    if action == "planted":
        (user / next(iter(PLACES))).chmod(0o777)
    connecting.apply_plan(connecting.plan_disconnection(host, mine, ours), NOW)
    return _unlike(before, user)


def _unlike(before: Tree, user: Path) -> list[str]:
    after = tree(user)
    return [
        place for place in before.keys() | after.keys() if before.get(place) != after.get(place)
    ]


def _control(user: Path, apart: Apart) -> Outcome:
    _fresh(user)
    answer = apart.ask(("planted", "claude-code", str(user)))
    return Outcome(
        "a mode that was changed", 1, "plants", answer.value or (), is_control=True, floor=1
    )


def _spoilt(user: Path, apart: Apart, scale: Scale) -> Outcome:
    """Spoil one file of a host and connect it."""
    wrong, refused, slowest = [], 0, 0.0
    times = scale.of(100, 2_500)
    places = list(PLACES)
    for number in range(times):
        chance = random.Random(f"settings {number}")
        place = places[number % len(places)]
        spoil = chance.choice((*spoiling.SPOILS, _dressed, _dressed))
        _fresh(user)
        data = spoil(chance, (user / place).read_bytes())
        (user / place).write_bytes(data)
        answer = apart.ask(("hosts", _host_of(place), str(user)))
        refused += bool(answer.refused)
        slowest = max(slowest, answer.took_s)
        if problem := _problem(answer):
            wrong.append(f"{place} {spoil.__name__} {number}: {problem}")
    note = f"{refused:,} refused and left alone, at most {slowest:.1f} s"
    return Outcome("a host's spoilt settings", times, "files", wrong, note, floor=2_500)


def _dressed(chance: random.Random, data: bytes) -> bytes:
    """Write the same data in another way: other line ends, a BOM, tabs, blank or joined lines."""
    ways: tuple[Callable[[bytes], bytes], ...] = (
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.rstrip(),
        lambda text: text + b"\n\n\n",
        lambda text: text.replace(b"  ", b"\t"),
        lambda text: b" ".join(text.split(b"\n")),
        lambda text: text.replace(b"}", b"}  \n", 1),
    )
    for way in chance.sample(ways, 2):
        data = way(data)
    return data


def _strange(user: Path, apart: Apart, scale: Scale) -> Outcome:
    """Put something else in the place of each file."""
    mib = scale.of(1, 4) << 20
    kinds: dict[str, Callable[[Path], object]] = {
        "a pipe": os.mkfifo,
        "a folder": Path.mkdir,
        "a device": lambda path: path.symlink_to("/dev/zero"),
        "a ring of links": lambda path: path.symlink_to(path.name),
        "a link to nothing": lambda path: path.symlink_to("nothing/at/all"),
        "a link elsewhere": lambda path: _linked(path, user),
        "a file of lists": lambda path: path.write_bytes(b"[" * mib),
        "a long text": lambda path: path.write_bytes(b'{"a": "' + b"a" * mib + b'"}'),
        "a long line": lambda path: path.write_bytes(b"a = 1 # " + b"[" * mib),
        "many keys": lambda path: path.write_bytes(b"{" + b'"a":1,' * (mib // 100) + b'"b":2}'),
        "many tables": lambda path: path.write_bytes(b"[[a]]\nb=1\n" * (mib // 400)),
        "deep TOML": lambda path: path.write_bytes(b"a = " + b"[" * 5_000 + b"]" * 5_000),
        "a deep table": lambda path: path.write_bytes(b"[" + b"a." * 5_000 + b"a]\n"),
        "a long number": lambda path: path.write_bytes(b"a = " + b"9" * 9_000 + b"\n"),
        "far too much": lambda path: path.write_bytes(b" " * (64 << 20)),
    }
    wrong, took, tried = [], {}, 0
    for name, make in kinds.items():
        for place in PLACES if scale is Scale.FULL else list(PLACES)[tried % 4 :: 4]:
            _fresh(user)
            (user / place).unlink()
            make(user / place)
            answer = apart.ask(("hosts", _host_of(place), str(user)))
            tried += 1
            took[f"{name} as {place}"] = answer.took_s
            if problem := _problem(answer):
                wrong.append(f"{name} as {place}: {problem}")
    slowest = max(took, key=lambda process: took[process])
    note = f"at most {took[slowest]:.1f} s ({slowest})"
    return Outcome("no settings in their place", tried, "places", wrong, note, floor=150)


def _linked(path: Path, user: Path) -> None:
    other = user / "dotfiles"
    other.mkdir()
    other.joinpath(path.name).write_bytes(b"")
    path.symlink_to(other / path.name)


def _own(home: Path, apart: Apart, scale: Scale) -> Outcome:
    """Spoil our own `config.toml`."""
    wrong, refused = [], 0
    home.mkdir()
    path = home / "config.toml"
    odd = (
        b"a = " + b"[" * 50_000,
        b"a = " + b"9" * 9_000,
        b"[" * 50_000,
        b" " * (8 << 20),
        b"\xff",
    )
    times = scale.of(100, 1_500)
    for number in range(times):
        chance = random.Random(f"config {number}")
        spoil = chance.choice(spoiling.SPOILS)
        path.write_bytes(odd[number] if number < len(odd) else spoil(chance, _CONFIG))
        answer = apart.ask(("config", "", str(home)))
        refused += bool(answer.refused)
        if problem := _problem(answer):
            wrong.append(f"config.toml {spoil.__name__} {number}: {problem}")
        elif answer.refused and "config.toml" not in answer.refused:
            wrong.append(f"{number}: the refusal does not name the file: {answer.refused}"[:200])
    note = f"{refused:,} refused by name"
    return Outcome("our own spoilt settings", times, "files", wrong, note, floor=1_500)


def _fresh(user: Path) -> None:
    """Write every host's settings into an empty folder, and delete our memory's records of them."""
    shutil.rmtree(user)
    shutil.rmtree(user.parent / "memory", ignore_errors=True)
    settle(user)


def _host_of(place: str) -> str:
    """Return the host whose file lies at a place."""
    folder = place.removeprefix(".config/").removeprefix(".").partition("/")[0]
    names = {"claude": "claude-code", "claude.json": "claude-code", "Code": "vscode"}
    names |= {"codeium": "windsurf"}
    return names.get(folder, folder)


def _problem(answer: Answer) -> str | None:
    """Return the fault, or None."""
    if answer.crash:
        return answer.crash[:300]
    if answer.value:
        return f"not as it was: {', '.join(answer.value)}"[:300]
    if answer.took_s > MOST_S:
        return f"took {answer.took_s:.1f} s"
    if answer.grown > MOST_GROWN:
        return f"took {answer.grown >> 20} MiB more"
    return None
