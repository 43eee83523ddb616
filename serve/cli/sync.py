"""The command `sync`: one memory on all of a person's machines, through a place they all reach."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from platform import node
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from serve.cli import environment, output
from serve.cli.environment import Environment
from serve.cli.group import FAILED
from serve.cli.replica import make_folder
from serve.formatting import ago, size
from store.home.config import Settings
from store.home.errors import ConfigError, InvalidInput, NotFound
from store.home.instants import isoformat, new_id
from store.home.tenant import Tenant
from store.log.event_log import EventLog
from store.text.excerpt import plural

if TYPE_CHECKING:
    from store.sync.membership import Place
    from store.sync.sync import Synced

T = TypeVar("T")
_TRIES, _PAUSE_S = 20, 0.5  # while another process is syncing
_AHEAD_US = 5 * 60 * 1_000_000  # a clock further ahead than this is reported


@click.group(
    invoke_without_command=True,
    epilog=output.example(
        "mnemolog sync init ~/Dropbox/mnemolog",
        "mnemolog sync",
        "mnemolog sync status",
    ),
)
@output.json_option
@click.pass_context
def sync(context: click.Context, as_json: bool) -> None:
    """Bring this memory together with that of your other machines. Without a command: receive and
    send what is new, now.

    Each machine sends what was written on it, encrypted, to a place that all of them reach: a
    folder that something else syncs, a bucket or a git remote. Whatever arrives late or out of
    order, all machines that have the same events have the same memories. A running server does it
    every few seconds.
    """
    if context.invoked_subcommand is None:
        context.exit(_sync_now(context.obj.settings(), as_json=as_json))


@sync.command(
    epilog=output.example(
        "mnemolog sync init ~/Dropbox/mnemolog",
        "mnemolog sync init s3://bucket/me --name laptop",
        "mnemolog sync init git+ssh://git@example.org/me/memory.git",
    )
)
@click.argument("place")
@click.option("--name", help="What your other machines call this one; by default its host name.")
@output.json_option
@click.pass_obj
def init(env: Environment, /, place: str, name: str | None, as_json: bool) -> None:
    """Sync this memory through PLACE from now on: a folder that something else syncs,
    s3://BUCKET/FOLDER, or git+URL of a git remote, where it lies on refs of its own.

    The first machine makes a key and prints it: keep it where you keep passwords. Every other
    machine is asked for it, or reads it from standard input. Only who has it can read what lies at
    PLACE, and what arrives there counts as your own word, so a person has to say this command.
    """
    environment.presence().require_person("syncing with other machines", on_dashboard=False)
    settings = env.settings()
    tenant, _ = environment.make_tenant(settings)
    joined, key, is_first = _join(settings, tenant, place, name or node() or "machine")
    synced = _sync(settings, tenant)
    if as_json:
        new_key = {"key": key} if is_first else {}
        output.emit({"place": joined.url, **new_key, **msgspec.to_builtins(synced)})
        return
    if is_first:
        output.say(f"{joined.url} is where your machines meet from now on. Its key:")
        _say_key(key)
        output.say(
            "Keep it where you keep passwords. On each other machine run `mnemolog sync init PLACE`"
        )
        output.say("and give it this key. Without it nobody reads what lies there, nor do you.")
    _print_synced(synced)


def _say_key(key: str) -> None:
    output.say()
    output.say(f"    {key}")
    output.say()


def _join(settings: Settings, tenant: Tenant, url: str, name: str) -> tuple["Place", str, bool]:
    """Record a tenant's sync place; return it, the key, and True if this machine is the first.

    Raise InvalidInput if the key is not the place's.
    """
    from store.replica.remote import is_folder
    from store.sync import membership, sealed, sync
    from store.sync.git_remote import is_git
    from store.sync.membership import Place

    if is_folder(url) and not is_git(url):
        url = str(Path(url).expanduser().absolute())
        make_folder(settings, Path(url))
    remote = sync.open_url(tenant, url)
    now = environment.now()
    is_first = not sealed.is_begun(remote)
    key = sealed.new_key() if is_first else sealed.read_key(_ask_key(url))
    place = sealed.Sealed(remote, key)
    if is_first:
        sealed.begin(place)
    if not sealed.has_key_of(place):
        raise InvalidInput(
            f"{url} has another key: give the one that `mnemolog sync key` prints on a machine "
            "that syncs through it"
        )
    before = membership.read_place(tenant)
    is_same = before is not None and before.url == url
    behind = sync.drop_unreadable(tenant, place) if is_same else ()
    with EventLog(tenant.log) as log:
        adopted = sync.orphans(log, place, membership.own_home(tenant, now))
    machine = before.machine if before is not None and is_same else new_id(now)
    joined = Place(
        url=url, machine=machine, name=name, adopted=adopted, keyed_at=now, behind=behind
    )
    membership.join(tenant, joined, key)
    return joined, sealed.write_key(key), is_first


def _ask_key(url: str) -> str:
    if sys.stdin.isatty():
        output.note(f"{url} is in use: `mnemolog sync key` prints its key on your other machines")
        return str(click.prompt("Key", hide_input=True, err=True))
    return output.stdin_text()


@sync.command(epilog=output.example("mnemolog sync now"))
@output.json_option
@click.pass_context
def now(context: click.Context, as_json: bool) -> None:
    """Receive and send what is new, now, and compare all that was sent with the log."""
    context.exit(_sync_now(context.obj.settings(), as_json=as_json))


def _sync_now(settings: Settings, *, as_json: bool) -> int:
    tenant = environment.current_tenant(settings)
    _place_of(tenant)
    synced = _sync(settings, tenant)
    if as_json:
        output.emit(msgspec.to_builtins(synced))
    else:
        _print_synced(synced)
    return FAILED if synced.problems else 0


def _place_of(tenant: Tenant) -> "Place":
    from store.sync import membership

    place = membership.read_place(tenant)
    if place is None:
        raise ConfigError(
            f"{tenant.name} is not synced: begin with `mnemolog sync init PLACE`, a folder that "
            "all your machines reach, s3://BUCKET/FOLDER, or git+URL"
        )
    return place


def _sync(settings: Settings, tenant: Tenant) -> "Synced":
    """Receive and send the new events, once no other process is syncing."""
    from store.sync import sync

    opened = sync.open_sync(tenant, environment.now())
    if opened is None:
        raise InvalidInput("sync is paused: run `mnemolog sync resume` first")
    return _once_free(lambda: opened.sync(environment.now(), anew=True))


def _once_free(act: Callable[[], T | None]) -> T:
    """Return what `act` returns once no other process is syncing: until then it returns None."""
    for _ in range(_TRIES):
        if (result := act()) is not None:
            return result
        time.sleep(_PAUSE_S)
    raise ConfigError("another process syncs this memory: try again")


def _print_synced(synced: "Synced") -> None:
    for name, count in sorted(synced.received.items()):
        output.say(f"{plural(count, 'event')} from {name}")
    if synced.erased:
        output.say(f"{plural(synced.erased, 'memory')} erased here, as on another machine")
        output.note("what was built of them is gone: run `mnemolog build`, or leave it to a server")
    sent = synced.sent
    if sent.events or sent.replaced:
        replaced = f", {plural(sent.replaced, 'part')} replaced" if sent.replaced else ""
        output.say(f"{plural(sent.events, 'event')} sent, {size(sent.bytes)}{replaced}")
    if not (synced.received or synced.erased or sent.events or sent.replaced or synced.problems):
        output.say("nothing new on any machine")
    for problem in synced.problems:
        output.note(problem)


@sync.command(epilog=output.example("mnemolog sync status", "mnemolog sync status --digest"))
@click.option("--digest", is_flag=True, help="Show a digest that machines in step have in common.")
@output.json_option
@click.pass_obj
def status(env: Environment, /, digest: bool, as_json: bool) -> None:
    """Show which machines sync, and how far each has come. Nothing is asked of the place."""
    from store.sync import membership, sync

    tenant = environment.current_tenant(env.settings())
    _place_of(tenant)
    at = environment.now()
    with EventLog(tenant.log) as log:
        state = membership.standing(tenant, log)
        log_digest = sync.digest(log) if digest else None
    assert state is not None
    machines = [
        {"id": id_, "name": machine.name, "newest": isoformat(machine.clock)}
        for id_, machine in state.machines
    ]
    if as_json:
        fields: dict[str, Any] = {
            "place": state.url,
            "name": state.name,
            "is_paused": state.is_paused,
            "waiting": state.waiting,
            "in_step_at": isoformat(state.at) if state.at else None,
            "machines": [row | {"has_key": row["id"] not in state.behind} for row in machines],
        }
        output.emit(fields | ({"digest": log_digest} if digest else {}))
        return
    paused = ", paused" if state.is_paused else ""
    output.say(f"{state.name} syncs through {state.url}{paused}")
    when = f"in step {_seconds(at - state.at)}" if state.at else "never in step yet"
    output.say(f"{when}; {plural(state.waiting, 'event')} to send")
    if machines:
        rows = [(row["name"], row["newest"], row["id"]) for row in machines]
        output.table(("machine", "newest event here", "id"), rows)
    for id_, machine in state.machines:
        if id_ in state.behind:
            output.note(
                f"{machine.name} has not been given the new key: run `mnemolog sync init "
                f"{state.url}` there"
            )
        if machine.clock > at + _AHEAD_US:
            output.note(
                f"the clock of {machine.name} is ahead of this machine's by "
                f"{_seconds(machine.clock - at).removesuffix(' ago')}: set it right, or what is "
                "said there counts as said later"
            )
    if log_digest:
        output.say(f"digest {log_digest}")


def _seconds(passed: int) -> str:
    return ago(passed // 1_000_000)


@sync.command(epilog=output.example("mnemolog sync key", "mnemolog sync key --new"))
@click.option("--new", "is_new", is_flag=True, help="Change it, and print the new one.")
@output.json_option
@click.pass_obj
def key(env: Environment, /, is_new: bool, as_json: bool) -> None:
    """Print the key that another machine needs to join.

    With --new the place gets another key. A machine that is not given it reads nothing that is sent
    from now on. Once none has the old key, old versions of the place's files are unreadable.
    """
    from store.sync import membership, sealed

    environment.presence().require_person("the key of your machines", on_dashboard=False)
    settings = env.settings()
    tenant = environment.current_tenant(settings)
    place = _place_of(tenant)
    if not is_new:
        text = sealed.write_key(membership.read_key(tenant, place))
        if as_json:
            output.emit({"key": text})
        else:
            output.say(text)
        return
    if problems := _sync(settings, tenant).problems:
        raise InvalidInput(
            f"the key stays: not all that lies at {place.url} could be read ({problems[0]})"
        )
    text = _change_key(tenant, place)
    synced = _sync(settings, tenant)
    if as_json:
        output.emit({"key": text, **msgspec.to_builtins(synced)})
        return
    output.say(f"{place.url} has another key now:")
    _say_new_key(tenant, text)


def _change_key(tenant: Tenant, place: "Place") -> str:
    from store.sync import sealed, sync

    return sealed.write_key(_once_free(lambda: sync.change_key(tenant, place, environment.now())))


def _say_new_key(tenant: Tenant, key: str) -> None:
    """Print a new key, and the machines that neither send nor receive until they are given it."""
    from store.sync import membership

    _say_key(key)
    output.say("Keep it in the old one's place.")
    place, machines = _place_of(tenant), membership.read_heard(tenant).machines
    names = sorted({machines[id_].name for id_ in place.behind if id_ in machines})
    others = f" ({', '.join(names)})" if names else ""
    output.say(
        f"Every other machine that goes on syncing{others} needs it: run `mnemolog sync init "
        f"{place.url}` there. Until then, what is said there waits."
    )


@sync.command(epilog=output.example("mnemolog sync pause"))
@output.json_option
@click.pass_obj
def pause(env: Environment, /, as_json: bool) -> None:
    """Receive and send nothing until `mnemolog sync resume`."""
    _pause(env, is_paused=True, as_json=as_json)


@sync.command(epilog=output.example("mnemolog sync resume"))
@output.json_option
@click.pass_obj
def resume(env: Environment, /, as_json: bool) -> None:
    """Receive and send again."""
    _pause(env, is_paused=False, as_json=as_json)


def _pause(env: Environment, *, is_paused: bool, as_json: bool) -> None:
    from store.sync import membership

    tenant = environment.current_tenant(env.settings())
    place = msgspec.structs.replace(_place_of(tenant), is_paused=is_paused)
    membership.write_place(tenant, place)
    if as_json:
        output.emit({"place": place.url, "is_paused": is_paused})
    elif is_paused:
        output.say("paused: nothing is received or sent until `mnemolog sync resume`")
    else:
        output.say("on again: `mnemolog sync` brings this machine into step now")


@sync.command(epilog=output.example("mnemolog sync remove", "mnemolog sync remove old-laptop"))
@click.argument("machine", required=False)
@click.option("--keep-key", is_flag=True, help="Nobody has MACHINE: leave the others their key.")
@output.json_option
@click.pass_obj
def remove(env: Environment, /, machine: str | None, keep_key: bool, as_json: bool) -> None:
    """Take MACHINE, by its name or id, out of the place: this machine sends its events from now on,
    and the place gets another key, for MACHINE has the old one. Without MACHINE, sync this memory
    no more.

    All memories stay on every machine.
    """
    from store.sync import membership, sync

    settings = env.settings()
    tenant = environment.current_tenant(settings)
    place = _place_of(tenant)
    if machine is None:
        membership.leave(tenant)
        if as_json:
            output.emit({"removed": None})
        else:
            output.say(f"synced no more; what was sent stays at {place.url}")
        return
    if not keep_key:
        environment.presence().require_person("the key of your machines", on_dashboard=False)
    machines = membership.read_heard(tenant).machines
    removed = {id_: other for id_, other in machines.items() if machine in (other.name, id_)}
    if not removed:
        raise NotFound(f"no machine {machine!r}: `mnemolog sync status` lists them")
    if problems := _sync(settings, tenant).problems:  # all its events are here before it is removed
        raise InvalidInput(
            f"{machine} stays: not all that lies at {place.url} could be read ({problems[0]})"
        )
    adopted = {*place.adopted, *(other.home for other in removed.values())}
    adopted.discard(membership.own_home(tenant, environment.now()))
    place = msgspec.structs.replace(place, adopted=tuple(sorted(adopted)))
    membership.write_place(tenant, place)
    if keep_key:
        membership.sent_file(tenant).unlink(missing_ok=True)  # it lacked the removed one's events
        text = None
    else:
        text = _change_key(tenant, place)
    _sync(settings, tenant)
    _once_free(lambda: sync.remove_machines(tenant, removed.keys()))
    if as_json:
        output.emit({"removed": machine} | ({} if text is None else {"key": text}))
        return
    output.say(f"{machine} is taken out; this machine sends its events from now on")
    if text is not None:
        output.say(f"It has the old key of {place.url}, so there is another one now:")
        _say_new_key(tenant, text)
