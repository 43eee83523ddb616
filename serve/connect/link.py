"""
connect() and disconnect(): the plan for one host, and how it is carried out.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serve.connect import changes, record
from serve.connect.changes import Change
from serve.connect.document import Document
from serve.connect.hosts import Host
from serve.connect.machine import Install, Machine
from serve.connect.record import Connected, Connections, Hold
from store.home.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to happen to a host's files; those that stay as they are stand there too."""

    host: Host
    home: Path
    is_taken: bool
    all: tuple[Change, ...]

    @property
    def changes(self) -> list[Change]:
        return [change for change in self.all if change.is_one]


def connecting(host: Host, machine: Machine, install: Install, *, rules: bool = True) -> Plan:
    """Return what connecting changes; without `rules` they are taken out where they stand.

    Raise ConfigError for a file that cannot be read or does not parse.
    """
    known = _known(install.home, host)
    puts = [_planned(one, known, is_taken=False) for one in host.documents(machine, install)]
    puts += [_planned(one, known, is_taken=not rules) for one in host.rules(machine)]
    return Plan(host, install.home, False, tuple(puts))


def disconnecting(host: Host, machine: Machine, install: Install) -> Plan:
    """Return what disconnecting changes; raise ConfigError as `connecting` does."""
    known = _known(install.home, host)
    files = documents(host, machine, install)
    return Plan(
        host, install.home, True, tuple(_planned(one, known, is_taken=True) for one in files)
    )


def carry_out(plan: Plan, now: int) -> Path | None:
    """Make the changes; return the folder of the backup, if one was made.

    What is known of the files is written before them, so that a stop in the midst can be undone.
    """
    backup = changes.back_up(plan.home, plan.host.name, plan.changes)
    connections = record.read(plan.home)
    holds = {str(one.path): one.hold for one in plan.all if one.hold is not None}
    if not plan.is_taken:
        entry = Connected(now, holds)
        connections = Connections(connections.hosts | {plan.host.name: entry}, connections.folders)
        record.write(plan.home, connections)
    folders = list(connections.folders)
    try:
        for change in plan.changes:
            changes.make(change, folders)
    finally:
        connections = Connections(connections.hosts, tuple(dict.fromkeys(folders)))
        record.write(plan.home, connections)
    if plan.is_taken:
        left = {name: one for name, one in connections.hosts.items() if name != plan.host.name}
        folders = changes.drop_folders(folders)
        record.write(plan.home, Connections(left, tuple(folders) if left else ()))
    return backup


def documents(host: Host, machine: Machine, install: Install) -> tuple[Document, ...]:
    return (*host.documents(machine, install), *host.rules(machine))


def entries(host: Host, machine: Machine, install: Install) -> list[Any]:
    """Return what is ours in the files that hooks and servers are read from; none: not connected.

    Raise ConfigError for a file that does not parse.
    """
    files = host.documents(machine, install)
    return [entry for one in files for entry in changes.entries(one)]


def is_current(host: Host, machine: Machine, install: Install) -> bool:
    """Whether connecting again would leave the files with hooks and servers as they are."""
    known = _known(install.home, host)
    files = host.documents(machine, install)
    return not any(_planned(one, known, is_taken=False).is_one for one in files)


def _known(home: Path, host: Host) -> dict[str, Hold]:
    connected = record.read(home).hosts.get(host.name)
    return connected.files if connected else {}


def _planned(document: Document, known: dict[str, Hold], *, is_taken: bool) -> Change:
    try:
        return changes.planned(document, known.get(str(document.path)), is_taken=is_taken)
    except ConfigError as error:
        raise ConfigError(f"{error} (nothing was changed)") from error
