"""`mnemolog embedder switch`: embed with another model, judge it and swap; and the cost of that."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from serve.cli import arguments, environment, output, processes
from serve.cli.environment import Environment
from serve.cli.group import FAILED
from store.home.config import Settings
from store.home.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from store.embedders.embedder import Embedder
    from store.embedders.installed_models import Trial
    from store.log.event_kinds import Step
    from store.log.event_log import EventLog
    from store.plans.plans import Plan


@click.command(
    epilog=output.example(
        "mnemolog embedder switch onnx:~/models/all-MiniLM-L6-v2",
        "mnemolog embedder switch multilingual-e5-small --budget 30",
    )
)
@click.argument("name")
@arguments.yes_option
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    metavar="MINUTES",
    help="Embed for so long at most; the same command goes on from there.",
)
@click.option("--force", is_flag=True, help="Switch although past answers get worse.")
@click.option("--no-build", is_flag=True, help="Change only the setting; build later.")
@output.json_option
@click.pass_context
def switch(
    context: click.Context,
    name: str,
    yes: bool,
    budget: float | None,
    force: bool,
    no_build: bool,
    as_json: bool,
) -> None:
    """Switch to another embedder once its vectors are there and past answers do not get worse.

    The cost is shown first, and you are asked. The vectors are made beside the present ones, which
    answer meanwhile; what was made is kept if you stop. Then past recalls are asked again with
    both, as by `mnemolog plans propose`, and the build that publishes the new vectors is the
    switch. For a week you can switch back at once.
    """
    from store.embedders import model_facts
    from store.home import config

    settings = context.obj.settings()
    if as_json and not yes:
        raise InvalidInput("--json cannot ask: add --yes")
    name = absolute_name(settings, name)
    payload = _cost(settings, name)
    if not as_json:
        _tell(settings, payload)
    if not yes and not _confirm():
        output.say("nothing was changed")
        return
    model_facts.KnownModels(settings.home).forget(name)
    if no_build or not payload["memories"]:
        path = config.keep(settings.home, {"embedder": name})
        if settings.origin.get("embedder") == "environment":
            output.note("note: MNEMOLOG_EMBEDDER is set and overrides the file")
        if as_json:
            output.emit({"set": str(path), "exit_code": 0, "switched": True, **payload})
        else:
            output.say(f"embedder = {name} in {path}")
            output.say("next: `mnemolog build`, until then recall uses the vectors there are")
        return
    outcome = _switch(context.obj, name, budget, force=force, quiet=as_json)
    if as_json:
        file = str(settings.user_file) if outcome.is_set else None
        output.emit({"set": file, **outcome.json, **payload})
    else:
        output.say(outcome.text)
    context.exit(outcome.code)


class _Outcome(msgspec.Struct, frozen=True):
    """The outcome of a switch, and the exit code. `plan` is the plan that judged it."""

    text: str
    code: int = 0
    is_set: bool = False
    embedded: int = 0
    left: int = 0
    plan: str | None = None

    @property
    def json(self) -> dict[str, Any]:
        return {
            "exit_code": self.code,
            "switched": self.is_set,
            "embedded": self.embedded,
            "left": self.left,
            "plan": self.plan,
        }


def _switch(
    env: Environment, name: str, budget: float | None, *, force: bool, quiet: bool
) -> _Outcome:
    """Embed, judge, build and so publish; or serve the kept snapshot of the embedder."""
    from store.embedders.embedder import make_embedder
    from store.home import config
    from store.plans import proposals
    from store.plans.setting_changes import configure_steps
    from store.snapshots import manifest as manifests

    settings = env.settings()
    tenant, embedder = environment.current_tenant(settings), make_embedder(name, settings.home)
    steps = configure_steps(settings, {"embedder": name})
    with environment.open_log(settings) as log:
        if any(
            manifest.embedder == embedder.model for manifest in manifests.list_manifests(tenant)
        ):
            config.keep(settings.home, {"embedder": name})
            code = make_true(env, log, name, quiet=quiet)
            text = f"the build failed: answers use {name} once it passes"
            return _Outcome(text if code else f"answers use {name} again", code, is_set=True)
        done, total = embed_ahead(settings, log, name, budget, quiet=quiet)
        if done < total:
            text = f"embedded {done:,} of {total:,} texts: run it again to go on. Answers use "
            text += f"{settings.choices.embedder} as before"
            return _Outcome(text, embedded=done, left=total - done)
        plan = None
        if steps:
            plan = _judge(settings, log, steps, quiet=quiet)
            if not force and any(check.name in _REFUSING for check in plan.failed):
                text = f"nothing was changed. `mnemolog plans show {plan.id[:6]}` lists the "
                text += "answers; --force switches all the same"
                return _Outcome(text, FAILED, embedded=done, plan=plan.id)
            # the differences were shown: the log keeps which checks that overrides
            proposals.accept(log, plan.id, environment.now(), force=True)
        code = processes.build(env.settings(), quiet=quiet)
        if code and plan is not None:
            proposals.undo(log, plan.id, environment.now())
            text = "the build failed, so nothing was changed. What was embedded is kept for a week"
            return _Outcome(text, code, embedded=done, plan=plan.id)
    text = f"answers use {name}. For a week `mnemolog embedder switch {settings.choices.embedder}` "
    return _Outcome(text + "goes back at once", code, True, done, plan=plan.id if plan else None)


# Another model returns other memories, and that is the reason to switch: of a plan's checks only
# these refuse it, and the others are printed. Its grasp of meaning was reported before the switch
# was confirmed.
_REFUSING = frozenset({"ratings", "canaries", "expected"})


def _judge(settings: Settings, log: "EventLog", steps: "Sequence[Step]", *, quiet: bool) -> "Plan":
    """Return the plan of a switch, with its effect on past recalls; print that."""
    from serve.evaluation import drift
    from store.log import receipts
    from store.plans import plans

    events = receipts.page(log, receipts.Wanted(), arguments.MOST_ASKED, most=sys.maxsize).receipts
    tenant, now = environment.current_tenant(settings), environment.now()
    if not quiet:
        output.note(f"asking past recalls again, {len(events):,} of them, with both")
    planned = drift.settings_plan(settings, tenant, log, steps, events, now)
    for check in planned.checks if not quiet else ():
        text = "ok" if check.passed else "FAILED" if check.name in _REFUSING else "differs"
        output.say(f"{text:8}{check.name}: {check.detail}")
    return plans.propose(log, planned, now)


def embed_ahead(
    settings: Settings, log: "EventLog", name: str, budget: float | None = None, *, quiet: bool
) -> tuple[int, int]:
    """Embed the texts that have no vector by a model yet, for at most `budget` minutes; return the
    number of texts done and the total. Finished vectors are kept for the build.

    Raise EmbedderError if the model does not answer.
    """
    from store.embedders.embedder import make_embedder
    from store.maintenance import embedder_switch
    from store.maintenance.progress import ProgressEstimate

    began, done, total = time.monotonic(), 0, 0
    embedder, tenant = make_embedder(name, settings.home), environment.current_tenant(settings)
    if embedder.is_cheap:
        return 0, 0  # a build embeds them in passing
    tell = ProgressEstimate("embedded", output.note)
    for done, total in embedder_switch.embed_ahead(tenant, log, embedder):
        if not quiet:
            tell(done, total)
        if budget is not None and time.monotonic() - began >= 60 * budget:
            break
    return done, total


def make_true(env: Environment, log: "EventLog", name: str, *, quiet: bool) -> int:
    """Answer with the embedder that was just set: at once from its kept snapshot, if nothing was
    erased since; else build. Return the exit code.
    """
    from store.embedders.embedder import make_embedder
    from store.maintenance import build, embedder_switch

    settings = env.settings()
    tenant, embedder = environment.current_tenant(settings), make_embedder(name, settings.home)
    embedder_switch.serve_again(tenant, log, embedder, environment.now())
    served = build.current_manifest(tenant)
    if served is not None and served.embedder == embedder.model:
        return 0  # perhaps a server was first; later events are overlaid on it until a build
    embed_ahead(settings, log, name, quiet=quiet)
    return processes.build(settings, quiet=quiet)


def absolute_name(settings: Settings, name: str) -> str:
    """Return the setting of a name: a folder's absolute path, a model's installed name."""
    from store.embedders import model_catalog

    kind, _, rest = name.partition(":")
    if kind in ("onnx", "table") and (path := Path(rest).expanduser()).is_dir():
        return f"{kind}:{path.absolute()}"
    for model in model_catalog.CATALOG:
        if model.name.lower() == name.lower():
            if setting := model_catalog.installed_as(model, settings.home):
                return setting
            raise NotFound(
                f"{model.name} is not installed: run `mnemolog embedder install {model.name}`"
            )
    return name


def trial_fields(tried: "Trial") -> dict[str, Any]:
    from msgspec.structs import asdict

    return {"ok": tried.ok, **asdict(tried)}


def may_send(settings: Settings, name: str, *, is_agreed: bool, can_ask: bool) -> bool:
    """Return True if a model may embed memories as a trial: a remote model is sent their texts, so
    the cost is shown and a person asked first.

    Raise InvalidInput if nobody can be asked.
    """
    from store.embedders.embedder import make_embedder

    if is_agreed or make_embedder(name).is_local:
        return True
    if not can_ask:
        raise InvalidInput("--json cannot ask whether texts may be sent to the model: add --yes")
    _tell(settings, _cost(settings, name))
    return _confirm()


def _confirm() -> bool:
    try:
        return click.confirm("go on?")
    except click.Abort:
        if sys.stdin.isatty():
            raise  # a person was there, and left
        raise click.UsageError("no terminal to ask on: add --yes") from None


def _cost(settings: Settings, name: str) -> dict[str, Any]:
    """Return the cost of a switch: texts, seconds and dollars (None: not known).

    Raise ConfigError for a wrong name, EmbedderError if the model does not answer: then nothing is
    changed.
    """
    from store.embedders.embedder import make_embedder
    from store.embedders.installed_models import estimate_seconds, try_model

    model = make_embedder(name)  # without a home: earlier facts about it are not used
    texts = _texts(settings, model)
    dollars: float | None = 0.0
    if not model.is_local:
        from store.embedders.remote import dollars as price

        dollars = price(name.partition(":")[2], sum(map(len, texts)))
    return {
        "name": name,
        "trial": trial_fields(try_model(model)),
        "sent_away": not model.is_local,
        "memories": len(texts),
        "seconds": round(estimate_seconds(model, texts), 1),
        "dollars": dollars,
    }


def _texts(settings: Settings, model: "Embedder") -> list[str]:
    """Return the distinct texts of the chosen tenant that a model embeds, from its current log."""
    from store.index.vectors import distinct_texts
    from store.log.event_log import EventLog
    from store.memories.memories_projection import MEMORIES_PROJECTION
    from store.snapshots.projection import Inputs, build_checked

    try:
        tenant = environment.current_tenant(settings)
    except NotFound:
        return []
    with EventLog(tenant.log) as log:
        head = log.head()
        inputs = Inputs(head, lambda after: log.effective_events(after, head))
        tables = build_checked(MEMORIES_PROJECTION, inputs, None)
    return distinct_texts(tables)


def _tell(settings: Settings, payload: dict[str, Any]) -> None:
    tried, dollars = payload["trial"], payload["dollars"]
    cost = "unknown" if dollars is None else f"${dollars:.4f}" if dollars else "nothing"
    output.say(
        f"{settings.choices.embedder} -> {payload['name']} ({tried['dimension']} dimensions)"
    )
    output.say(f"texts to embed  {payload['memories']}")
    output.say(f"time            about {payload['seconds']:g} s, estimated from a sample")
    output.say(f"cost            {cost}")
    if not tried["ok"]:
        output.say("note            it does not distinguish meaning: see `mnemolog embedder test`")
    if payload["sent_away"]:
        output.say("note            the texts of your memories are sent to where that model runs")
