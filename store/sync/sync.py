"""
Sync: merges a tenant's log on one machine with those of the person's other machines.

Each machine writes its own generation at the place (`store.replica.sender`): the events that were
written on it, in parts. It merges those of the others (`store.log.merging`). No file is written by
two machines, so there are no conflicts; even if events arrive late, twice or out of order, all
machines with the same events have the same memories.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from hashlib import sha256
from operator import attrgetter

import msgspec

from store.home import failures
from store.home.errors import BuildBusy, ConfigError, InvalidInput, LogCorrupt, RemoteError
from store.home.files import try_lock
from store.home.tenant import Tenant
from store.log import copies, erasing, merging, vocabulary
from store.log.event_kinds import Erased
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.rows import decode_row
from store.replica import parts
from store.replica.parts import About, Generation, Part
from store.replica.remote import Remote, open_remote
from store.replica.sender import LogSender, Sent
from store.replica.state import read_state
from store.sync import membership, sealed, unaware
from store.sync.git_remote import GitRemote, is_git
from store.sync.membership import KIND, Heard, Machine, Place
from store.sync.sealed import Sealed

TOP = "machines"  # the folder of the generations
_AT_ONCE = 20_000  # events merged at a time


class Synced(msgspec.Struct, frozen=True):
    """The result of one pass: the data sent, the number of new events from other machines, by the
    machine's name, and the number of memories erased because another machine did.

    `problems` name the unreadable parts and the fix; they are tried again each time.
    """

    sent: Sent
    received: dict[str, int]
    erased: int
    problems: tuple[str, ...]


class TenantSync:
    """One tenant's sync on this machine. One thread at a time."""

    def __init__(self, tenant: Tenant, place: Place, remote: Remote, now: int) -> None:
        self.place, self._tenant, self._remote = place, tenant, remote
        self._home = tenant.root.parent.parent
        self._origin = membership.own_home(tenant, now)
        file = membership.sent_file(tenant)
        anew = f"mnemolog sync init {place.url}"
        self._sender = LogSender(remote, TOP, file, anew, (self._origin, *place.adopted))

    def sync(self, now: int, *, anew: bool = False) -> Synced | None:
        """Receive and send new events; None if another process is doing it.

        With `anew`, and once an hour, all sent parts are compared with the log. Raise RemoteError,
        a LogError, or ConfigError if the place's key was changed; the work done until then counts.
        """
        with (
            try_lock(self._tenant.root / "sync.lock") as is_ours,
            EventLog(self._tenant.log) as log,
        ):
            if not is_ours:
                return None
            received, problems, is_rewritten = self._receive(log, now)
            erased = self._erase(log, now)
            about = About(
                machine=self.place.machine,
                home=self._origin,
                name=self.place.name,
                adopted=self.place.adopted,
                vocabulary=log.vocabulary(),
                knew=membership.read_heard(self._tenant).knew,
            )
            sent = self._sender.send(log, about, now, anew=anew or bool(erased) or is_rewritten)
            if problems:
                failures.keep(self._tenant.root, KIND, now, "; ".join(problems))
            else:
                failures.forget(self._tenant.root, KIND)
                self._note(msgspec.structs.replace(membership.read_heard(self._tenant), at=now))
            return Synced(sent, received, erased, tuple(problems))

    def _check_key(self) -> None:
        """Raise ConfigError if the place has another key now: nothing is sent with the old one."""
        try:
            is_ours = sealed.has_key_of(self._remote)
        except RemoteError:
            return  # late, as a folder's files may be
        if not is_ours:
            raise ConfigError(
                f"{self.place.url} has another key now: run `mnemolog sync init {self.place.url}` "
                "here with the one that `mnemolog sync key` prints where it was changed; if nobody "
                "changed it, its sync.json is damaged: delete that file"
            )

    def _receive(self, log: EventLog, now: int) -> tuple[dict[str, int], list[str], bool]:
        """Merge the events of other machines; return the number of new ones, by the machine's name,
        the problems in reading, and whether events that this machine had sent changed.
        """
        received: Counter[str] = Counter()
        problems: list[str] = []
        is_rewritten = False
        waiting: dict[str, list[Event]] = {}  # by the home that sent them
        names: dict[str, str] = {}  # of the machines, by home
        heard = membership.read_heard(self._tenant)
        machines = dict(heard.machines)

        def merge() -> None:
            nonlocal is_rewritten, heard
            new: list[Event] = []
            every = [event for events in waiting.values() for event in events]
            erased = [event.subject for event in every if isinstance(event.body, Erased)]
            if erased:  # noted first: a process ended after the merge would not see them again
                self._note(msgspec.structs.replace(heard, to_erase=_once(heard.to_erase, erased)))
            for home, events in sorted(waiting.items()):
                merged = merging.merge(log, events, home)
                is_rewritten = is_rewritten or bool(merged.replaced)
                if merged.moved:
                    self._drop_built()
                received[names[home]] += len(merged.new)
                new += merged.new
            to_erase = _once(heard.to_erase, erased, merging.erased_episodes(log, every))
            unaware.link_unaware_values(log, new, machines.values(), self._origin, now)
            knew = unaware.add_knowledge(heard.knew, machines.values(), now)
            heard = Heard(dict(machines), to_erase, heard.at, knew)
            self._note(heard)
            waiting.clear()

        own = read_state(membership.sent_file(self._tenant))
        there = parts.list_generations(self._remote, TOP)
        self._check_key()
        ids = {generation.id for generation in there}
        for generation in there:
            before = machines.get(generation.id, Machine(0, "", 0))
            # in this machine's own generation, events after the last one it remembers sending came
            # from a copy of this home, or before this home was set back
            is_own = own is not None and own.generation == generation.id
            after = own.seq if own is not None and is_own else before.seq
            try:
                is_behind = generation.id in self.place.behind
                if is_behind and _readable_about(self._remote, generation) is None:
                    continue  # its machine, once given the new key, sends it again
                if (about := self._about(generation, after)) is None:
                    continue
                names[about.home] = about.name or generation.id
                for part in generation.parts:
                    if part.last > after:
                        events = self._read(generation, about, part, after)
                        waiting.setdefault(about.home, []).extend(events)
                        newest = max(before.clock, *(merging.place(event)[0] for event in events))
                        if not is_own:
                            name, home = names[about.home], about.home
                            machine = Machine(part.last, name, newest, home, about.knew)
                            machines = _without_former(machines, ids, home)
                            machines[generation.id] = machine
                    if sum(map(len, waiting.values())) >= _AT_ONCE:
                        merge()
                problems += _hole(generation, about)
            except (RemoteError, LogCorrupt, InvalidInput) as error:
                problems.append(str(error))
        if waiting:
            merge()
        return +received, problems, is_rewritten

    def _about(self, generation: Generation, after: int) -> About | None:
        """Return the description of a generation; None if nothing in it is new.

        Raise InvalidInput if a later mnemolog writes it.
        """
        if generation.last <= after or not generation.has_about:
            return None
        about = parts.read_about(self._remote, generation)
        if unknown := vocabulary.first_unknown(about.vocabulary.items()):
            raise InvalidInput(
                f"{about.name} writes events of the kind {unknown[0]!r}, version {unknown[1]}, "
                "which this mnemolog does not read: upgrade mnemolog here"
            )
        return about

    def _read(self, generation: Generation, about: About, part: Part, after: int) -> list[Event]:
        """Return the events of a part after a seq; raise DamagedPart if it holds another
        machine's.
        """
        rows = parts.read_part(self._remote, generation, part)
        events = [decode_row(row) for row in rows if row[0] > after]
        homes = {None, about.home, *about.adopted}
        if any(event.origin not in homes or event.kind in merging.LOCAL for event in events):
            raise parts.DamagedPart(
                f"{self._remote.url}: {generation.path(part.name)} holds events that its machine "
                f"does not send: delete {generation.folder} if you do not know {about.name}"
            )
        return events

    def _erase(self, log: EventLog, now: int) -> int:
        """Erase here the memories that other machines erased; return their number.

        Those that cannot be erased now, as during a build, are erased next time.
        """
        heard = membership.read_heard(self._tenant)
        if not heard.to_erase:
            return 0
        from store.maintenance import erase, erase_receipt  # few passes erase

        erased = 0
        ids = tuple(sorted(log.present_ids(heard.to_erase)))
        if erasing.changes(log, ids) or erase.has_start(self._tenant):
            try:
                with erase.lock_out_jobs(self._tenant):
                    before = erase.file_names(self._tenant)
                    wiped = erase.wipe(self._tenant, log, erase.EraseRequest(ids), now)
                    erase.drop_served(self._tenant)
                    erase.drop_derived_files(self._tenant)
                    erase_receipt.make_receipt(
                        self._home, self._tenant, wiped, "another machine", now, before
                    )
            except BuildBusy:
                return 0
            erased = len(ids)
        self._note(msgspec.structs.replace(heard, to_erase=()))
        return erased

    def _drop_built(self) -> None:
        """Make the next build start from the log: the rows it would reuse have changed."""
        from store.maintenance import erase

        with suppress(BuildBusy):  # a build of over half a minute: they stay until a full build
            erase.drop_served(self._tenant)

    def _note(self, heard: Heard) -> None:
        membership.write_heard(self._tenant, heard)


def _without_former(machines: dict[str, Machine], there: Set[str], home: str) -> dict[str, Machine]:
    """Return the machines without the generations of a home that it has replaced."""
    return {
        id_: machine for id_, machine in machines.items() if machine.home != home or id_ in there
    }


def _once(*some: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(id_ for ids in some for id_ in ids))


def _hole(generation: Generation, about: About) -> Iterator[str]:
    """Yield a message if parts of a generation are missing."""
    beyond = [part for part in generation.others if part.first > generation.last + 1]
    if beyond:
        yield (
            f"events {generation.last + 1} to {beyond[0].first - 1} of {about.name} have not "
            "arrived yet: what follows them waits"
        )


def open_sync(tenant: Tenant, now: int) -> TenantSync | None:
    """Return a tenant's sync; None if it has none or it is paused.

    Raise ConfigError if the key is gone, or we cannot write to the place.
    """
    place = membership.read_place(tenant)
    if place is None or place.is_paused:
        return None
    return TenantSync(tenant, place, open_place(tenant, place), now)


def open_place(tenant: Tenant, place: Place) -> Sealed:
    """Return the place that a tenant is synced through; raise ConfigError."""
    return Sealed(open_url(tenant, place.url), membership.read_key(tenant, place))


def open_url(tenant: Tenant, url: str) -> Remote:
    """Return the place with this URL, a git remote's after "git+"; raise ConfigError."""
    if is_git(url):
        return GitRemote(url, membership.folder_of(tenant) / "git")
    return open_remote(url)


def change_key(tenant: Tenant, place: Place, now: int) -> bytes | None:
    """Give a place a new key, known to this machine alone; None if another process is syncing.

    What lies there stays sealed with the old one until its machine, given the new key, sends it
    again; this machine does so at its next pass. Requires that all of it was received here. Raise
    RemoteError; then the old key stays.
    """
    with try_lock(tenant.root / "sync.lock") as is_ours:
        if not is_ours:
            return None
        before, key = membership.read_key(tenant, place), sealed.new_key()
        remote = Sealed(open_url(tenant, place.url), key)
        # first here: were the place changed by a process that ends at once, nobody had its key
        membership.write_key(tenant, key)
        try:
            sealed.begin(remote)
        except RemoteError:
            membership.write_key(tenant, before)
            raise
        sent = _sent(tenant)
        behind = tuple(sorted({*membership.read_heard(tenant).machines, *sent}))
        membership.write_place(tenant, msgspec.structs.replace(place, keyed_at=now, behind=behind))
        membership.sent_file(tenant).unlink(missing_ok=True)
        _delete(remote, sent)
    return key


def drop_unreadable(tenant: Tenant, remote: Remote) -> tuple[str, ...]:
    """Delete what this machine sent to a place, if it was with an earlier key; return the known
    generations that the place's key does not open, or that have not arrived. Raise RemoteError.
    """
    there = parts.list_generations(remote, TOP)
    readable = {generation.id for generation in there if _readable_about(remote, generation)}
    sent = _sent(tenant)
    _delete(remote, sent - readable)
    return tuple(sorted({*membership.read_heard(tenant).machines, *sent} - readable))


def _sent(tenant: Tenant) -> set[str]:
    """Return the generation that this machine sends, in a set; an empty one if it sent nothing."""
    own = read_state(membership.sent_file(tenant))
    return {own.generation} if own else set()


def _readable_about(remote: Remote, generation: Generation) -> About | None:
    """Return the description of a generation; None if it has none that the key opens."""
    try:
        return parts.read_about(remote, generation) if generation.has_about else None
    except parts.DamagedPart:
        return None


def homes_at(remote: Remote) -> frozenset[str]:
    """Return the homes whose events machines send to a place, as far as its key opens them; raise
    RemoteError.
    """
    homes: set[str] = set()
    for generation in parts.list_generations(remote, TOP):
        if about := _readable_about(remote, generation):
            homes |= {about.home, *about.adopted}
    return frozenset(homes)


def orphans(log: EventLog, remote: Remote, own: str) -> tuple[str, ...]:
    """Return the homes in a log whose events no machine sends: a restored log's."""
    return tuple(sorted(copies.read_origins(log) - homes_at(remote) - {own}))


def remove_machines(tenant: Tenant, ids: Collection[str]) -> bool | None:
    """Forget other machines, by their generations' ids, and delete the files that they sent; None
    if another process is syncing. Raise RemoteError.
    """
    with try_lock(tenant.root / "sync.lock") as is_ours:
        place, heard = membership.read_place(tenant), membership.read_heard(tenant)
        if not is_ours or place is None:
            return None
        _delete(open_place(tenant, place), ids)
        machines = {id_: other for id_, other in heard.machines.items() if id_ not in ids}
        membership.write_heard(tenant, msgspec.structs.replace(heard, machines=machines))
        behind = tuple(id_ for id_ in place.behind if id_ not in ids)
        membership.write_place(tenant, msgspec.structs.replace(place, behind=behind))
        return True


def _delete(remote: Remote, ids: Iterable[str]) -> None:
    remote.delete([entry.name for id_ in ids for entry in remote.list(f"{TOP}/{id_}")])


def digest(log: EventLog) -> str:
    """Return the hex SHA-256 of all memories, the same on all machines in step."""
    from store.maintenance.build import log_inputs  # imports all of the build
    from store.memories.memories_projection import MEMORIES_PROJECTION
    from store.memories.parts import MemoryParts
    from store.snapshots.projection import build_checked

    tables = build_checked(MEMORIES_PROJECTION, log_inputs(log, log.head()), None)
    rows = MemoryParts.open(tables)
    total = sha256()
    memories = (rows.memory(row) for row in range(len(rows)))
    for memory in sorted(memories, key=attrgetter("id")):
        total.update(msgspec.json.encode(msgspec.structs.replace(memory, seq=0)))
    return total.hexdigest()
