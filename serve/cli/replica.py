"""The command `replicate`: a copy of the logs elsewhere, kept in step as they grow."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from serve.cli import environment, output
from serve.cli.group import FAILED
from serve.formatting import size
from store.home import config
from store.home.config import Settings
from store.home.errors import ConfigError, InvalidInput, RemoteError
from store.home.files import sync_folder
from store.home.tenant import list_tenants
from store.text.excerpt import plural

if TYPE_CHECKING:
    from store.replica.replica import HomeReplica
    from store.replica.sender import Sent

_EVERY_S = 1.0
_RETRY_S = 10.0
_TRIES = 20  # while another process replicates


@click.command(
    epilog=output.example(
        "mnemolog replicate /mnt/disk/mnemolog",
        "mnemolog replicate s3://bucket/laptop --once",
        "mnemolog replicate --stop",
    )
)
@click.argument("place", required=False)
@click.option("--once", is_flag=True, help="Send what is new, and end.")
@click.option("--stop", is_flag=True, help="Keep no replica any more; what was sent stays there.")
@output.json_option
@click.pass_context
def replicate(
    context: click.Context, place: str | None, once: bool, stop: bool, as_json: bool
) -> None:
    """Keep a replica elsewhere, a second behind. All that the logs of this home say is sent to
    PLACE, and what is new every second, until interrupted.

    PLACE is a folder on another disk, or s3://BUCKET/FOLDER of any storage that speaks S3, with the
    credentials, region and endpoint of the environment or ~/.aws. It is kept in config.toml: a
    running server of this home then sends by itself, and PLACE can be left out.

    `mnemolog backup restore PLACE --at TIME` brings a tenant back as it was. What you erase is
    rewritten there too.
    """
    settings: Settings = context.obj.settings()
    if as_json and not once:
        raise click.UsageError("--json reports one pass: add --once")
    if stop and (place or once):
        raise click.UsageError("--stop takes no PLACE and no --once")
    if stop:
        _stop(settings)
        return
    home = _home_replica(settings, place)
    if once:
        context.exit(_once(settings, home, as_json=as_json))
    _follow(home)


def _stop(settings: Settings) -> None:
    from store.home import failures
    from store.replica.state import KIND, stop

    path = config.keep(settings.home, {"replica": None})
    for tenant in list_tenants(settings.home):
        stop(tenant)
    failures.forget(settings.home, KIND)
    output.say(f"No replica is kept any more ({path}); what was sent stays where it is.")


def _home_replica(settings: Settings, place: str | None) -> "HomeReplica":
    from store.replica import replica
    from store.replica.remote import is_folder, open_remote
    from store.replica.state import stop

    url = settings.choices.replica if place is None else place
    if not url and place is None:
        raise ConfigError(
            "no place is kept: give one, such as `mnemolog replicate /mnt/disk/mnemolog` or "
            "`mnemolog replicate s3://bucket/laptop`"
        )
    if place is not None and is_folder(url):
        url = str(Path(url).expanduser().absolute())
    remote = open_remote(url)
    if place is not None:
        if is_folder(url):
            make_folder(settings, Path(url))
        environment.check_settable(settings, "replica")
        if url != settings.choices.replica:
            path = config.keep(settings.home, {"replica": url})
            output.note(f"kept in {path}: a running server of this home sends by itself")
        for tenant in list_tenants(settings.home):
            stop(tenant)  # the data at the place decides whether replication goes on
    return replica.HomeReplica(settings.home, remote)


def make_folder(settings: Settings, folder: Path) -> None:
    if folder.resolve().is_relative_to(settings.home.resolve()):
        raise InvalidInput(f"{folder} lies in the home itself: name a folder on another disk")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be made ({error.strerror})") from error


def _once(settings: Settings, home: "HomeReplica", *, as_json: bool) -> int:
    """Send the new events of every tenant; return the exit code."""
    from store.home.tenant import find_tenant
    from store.log.event_log import EventLog
    from store.replica import state

    report: dict[str, Any] = {}
    has_failed = has_sent = False
    for name, outcome in _patient(home):
        if isinstance(outcome, Exception):
            has_failed = True
            report[name] = {"error": str(outcome)}
            output.note(f"{name}: {outcome}")
        else:
            tenant = find_tenant(settings.home, name)
            with EventLog(tenant.log) as log:
                lag = state.lag(tenant, log, home.remote.url)  # events that came meanwhile
            behind = lag.events if lag else 0
            report[name] = msgspec.to_builtins(outcome) | {"behind": behind}
            has_sent = has_sent or outcome.events > 0 or outcome.replaced > 0
            if not as_json:
                _say(name, outcome)
    if as_json:
        output.emit({"url": home.remote.url, "tenants": report})
    elif not has_failed and not has_sent:
        output.say(f"{home.remote.url} holds all events")
    return FAILED if has_failed else 0


def _patient(home: "HomeReplica") -> "Iterator[tuple[str, Sent | Exception]]":
    """Yield the outcome for every tenant, once no other process is replicating it."""
    sent = set[str]()
    for _ in range(_TRIES):
        is_busy = False
        for name, outcome in home.sync(environment.now()):
            if outcome is None:
                is_busy = True
            elif name not in sent:
                sent.add(name)
                yield name, outcome
        if not is_busy:
            return
        time.sleep(_EVERY_S / 2)
    raise ConfigError("another process sends a replica of this home: try again")


def _follow(home: "HomeReplica") -> None:
    output.note(f"sending to {home.remote.url}, every second; Ctrl-C ends it")
    reported: list[str] = []
    while True:
        failed = []
        try:
            for name, outcome in home.sync(environment.now()):
                if isinstance(outcome, Exception):
                    failed.append(f"{name}: {outcome}")
                elif outcome is not None:
                    _say(name, outcome)
        except (RemoteError, OSError) as error:
            failed.append(str(error))
        if failed and failed != reported:
            output.note(f"{'; '.join(failed)}; trying again every {_RETRY_S:.0f} s")
        reported = failed
        time.sleep(_RETRY_S if failed else _EVERY_S)


def _say(name: str, sent: "Sent") -> None:
    if sent.events or sent.replaced:
        replaced = f", {plural(sent.replaced, 'part')} replaced" if sent.replaced else ""
        output.say(f"{name}: {plural(sent.events, 'event')}, {size(sent.bytes)} sent{replaced}")
