"""Commands that measure recall: `eval`, `replay`, `canaries` and `selftest`."""

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from serve.cli.group import FAILED
from store.home import config
from store.home.config import Choices
from store.home.errors import NoManifest, NotFound
from store.home.instants import isoformat

if TYPE_CHECKING:
    from serve.evaluation.canaries import Canary, Point
    from serve.evaluation.dataset import Workspace
    from serve.evaluation.harness import Run
    from serve.evaluation.replay import Replayed
    from serve.evaluation.report import Comparison, Level, Report, Scores
    from serve.recall.recall import Mode
    from store.log.event_log import EventLog


_STAGES = 3  # of a workspace: import, build, ask

_folder = click.Path(path_type=Path, file_okay=False)
_file = click.Path(path_type=Path, dir_okay=False)


@click.command(
    "eval",
    epilog=output.example(
        "mnemolog eval data --keep built --output a.jsonl",
        "mnemolog eval data --keep built --output b.jsonl --set fusion=rrf",
        "mnemolog eval data --compare a.jsonl b.jsonl --each",
        "mnemolog eval                                   # the set that comes with mnemolog",
    ),
)
@click.argument("folder", metavar="[DIR]", type=_folder, required=False)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="A setting to test.")
@click.option("--profile", help="Short for --set profile=PROFILE.")
@arguments.mode_option
@click.option("--only", default="", metavar="PREFIX", help="Only workspaces with this prefix.")
@click.option(
    "--level",
    type=arguments.Choice(["memory", "session"]),
    default="memory",
    show_default=True,
    help="What counts as found.",
)
@click.option(
    "--output", "file", type=_file, help="Write each query's ranking here, as JSON Lines."
)
@click.option("--keep", type=_folder, help="Keep what is built here, for the next run.")
@click.option("--cache", type=_folder, help="The folder for vectors; default: the user's cache.")
@click.option(
    "--compare", nargs=2, type=_file, metavar="A B", help="Compare two such files instead."
)
@click.option("--each", is_flag=True, help="With --compare: name the queries won and lost.")
@output.json_option
@click.pass_obj
def evaluate(
    env: Environment,
    /,
    folder: Path | None,
    changes: tuple[str, ...],
    profile: str | None,
    mode: "Mode",
    only: str,
    level: "Level",
    file: Path | None,
    keep: Path | None,
    cache: Path | None,
    compare: tuple[Path, Path] | None,
    each: bool,
    as_json: bool,
) -> None:
    """Measure recall on labelled queries. They come from DIR, or from the set that comes with
    mnemolog.

    DIR contains index.json, memories.jsonl and queries.jsonl for each workspace, and silence.jsonl:
    prompts that should get no memory. Your own memories are not touched. The best 60 memories are
    retrieved without a threshold, so top_k changes nothing, and min_confidence only what is
    injected. "told unasked" is what the prompt hook injects, by its own decision and in every mode.
    A model embeds each text once; later runs use the cache.
    """
    from serve.evaluation import dataset, report
    from serve.recall.ranking import SURE

    if compare and (changes or profile or file or keep or cache):
        raise click.UsageError(
            "--compare runs nothing: omit --set, --profile, --output, --keep and --cache"
        )
    if each and not compare:
        raise click.UsageError("--each needs --compare A B: it names the queries that differ")
    choices = _apply_changes(env.settings().choices, changes, profile)
    if file is not None:
        output.check_writable(file)  # before minutes of work, not after
    workspaces = dataset.read_workspaces(folder or dataset.CHECK_SET, only)
    if compare:
        a, b = (dataset.read_results(path) for path in compare)
        _print_comparison(
            report.compare_results(workspaces, a, b, level), each=each, as_json=as_json
        )
        return
    run = _run(workspaces, choices, mode, keep, cache or config.cache_folder() / "vectors")
    if file is not None:
        output.write(file, b"".join(msgspec.json.encode(result) + b"\n" for result in run.results))
    by_query = {result.query_id: result for result in run.results}
    scores = report.score_report(workspaces, by_query, level, bar=choices.min_confidence or SURE)
    memories = sum(len(workspace.memories) for workspace in workspaces)
    ran = {
        "workspaces": len(workspaces),
        "memories": memories,
        "refused": len(run.refused),
        "embedder": choices.embedder,
        "fusion": choices.fusion,
        "mode": mode,
    }
    if as_json:
        output.emit(ran | {"notices": run.notices} | msgspec.to_builtins(scores))
    else:
        _print_report(scores)
        output.say(", ".join(f"{name} {value}" for name, value in ran.items()))
        for notice in run.notices:
            output.note(f"note: {notice}")


def _apply_changes(choices: Choices, changes: tuple[str, ...], profile: str | None) -> Choices:
    """Return the settings changed by `--set` and `--profile`; raise ConfigError."""
    return config.change_choices(choices, arguments.parse_settings(changes, profile))


def _run(
    workspaces: "tuple[Workspace, ...]",
    choices: Choices,
    mode: "Mode",
    keep: Path | None,
    cache: Path,
) -> "Run":
    from serve.evaluation.harness import run_queries

    with _narrate(len(workspaces)) as tell:
        if keep is not None:
            return run_queries(workspaces, keep, choices, mode, cache=cache, on_progress=tell)
        # Windows cannot delete a file that is still mapped
        with tempfile.TemporaryDirectory(
            prefix="mnemolog-eval-", ignore_cleanup_errors=True
        ) as home:
            return run_queries(workspaces, Path(home), choices, mode, cache=cache, on_progress=tell)


@contextmanager
def _narrate(workspaces: int) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that shows progress on standard error; without a terminal, nothing."""
    if not sys.stderr.isatty():
        yield lambda workspace, stage: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=_STAGES * workspaces, completed=-1)

        def tell(workspace: str, stage: str) -> None:
            progress.update(task, advance=1, description=f"{output.clean(workspace)}: {stage}")

        yield tell


def _print_report(report: "Report") -> None:
    of = "sessions" if report.level == "session" else "memories"
    rows: dict[str, Scores] = {
        "all": report.overall,
        **{f"dataset {name}": scores for name, scores in report.datasets.items()},
        **{f"category {name}": scores for name, scores in report.categories.items()},
    }
    for wanted in (("recall@", "mrr@", "ndcg@"), ("hit@",)):
        names = [name for name in report.overall.measures if name.startswith(wanted)]
        output.table(
            [of, "queries", *names],
            [
                [name, str(scores.queries), *(_number(scores.measures[name]) for name in names)]
                for name, scores in rows.items()
            ],
        )
        output.say()
    _print_silence(report)
    _print_unasked(report)


def _print_silence(report: "Report") -> None:
    if not report.silence:
        return
    kinds: Mapping[str, int] = report.prompts
    total = sum(kinds.values())
    output.table(
        [
            "silence",
            "prompts",
            *("as set" if bar.keep is None else f"keep {bar.keep:.0%}" for bar in report.silence),
        ],
        [
            ["confidence threshold", "", *(_number(silence.bar) for silence in report.silence)],
            ["correct answers kept", "", *(_number(silence.kept) for silence in report.silence)],
            [
                "injected",
                str(total),
                *(_number(silence.injected_all) for silence in report.silence),
            ],
            *(
                [
                    f"  {kind}",
                    str(count),
                    *(_number(silence.injected[kind]) for silence in report.silence),
                ]
                for kind, count in kinds.items()
            ),
        ],
    )
    output.say()


def _print_unasked(report: "Report") -> None:
    if (unasked := report.unasked) is None:
        return
    output.table(
        ["told unasked, by the prompt hook", "prompts", "share"],
        [
            ["correct answers: something", str(unasked.queries), _number(unasked.kept)],
            ["correct answers: a right memory", str(unasked.queries), _number(unasked.right)],
            [
                "should get nothing",
                str(sum(report.prompts.values())),
                _number(unasked.injected_all),
            ],
            *(
                [f"  {kind}", str(count), _number(unasked.injected[kind])]
                for kind, count in report.prompts.items()
            ),
        ],
    )
    output.say()


def _print_comparison(comparison: "Comparison", *, each: bool, as_json: bool) -> None:
    if as_json:
        output.emit(comparison)
        return
    output.table(
        [comparison.level, "A", "B", "B - A", "95 % interval", "B wins", "loses", "ties"],
        [
            [
                difference.measure,
                _number(difference.a),
                _number(difference.b),
                f"{difference.mean:+.4f}",
                f"{difference.low:+.4f} to {difference.high:+.4f}",
                *map(str, (difference.wins, difference.losses, difference.ties)),
            ]
            for difference in comparison.differences
        ],
    )
    output.say(
        f"{comparison.queries} queries; left out, as only one file has them: {comparison.left_out}"
    )
    if each and comparison.changes:
        output.say()
        output.table(
            [comparison.differences[0].measure, "A", "B", "query", "asked"],
            [
                [
                    "won" if change.b > change.a else "lost",
                    f"{change.a:.2f}",
                    f"{change.b:.2f}",
                    change.query_id,
                    output.one_line(change.query, 100),
                ]
                for change in comparison.changes
            ],
        )


def _number(value: float) -> str:
    return f"{value:.4f}"


# replay

_REPLAYED = 1_000  # recalls, unless more are requested


@click.command(
    epilog=output.example(
        "mnemolog replay --since 7d",
        "mnemolog replay --set profile=wal     # what would have come back under other settings",
    )
)
@arguments.since_option
@click.option("--limit", type=click.IntRange(1), default=_REPLAYED, help="At most so many recalls.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="A setting to try.")
@output.json_option
@click.pass_context
def replay(
    context: click.Context,
    since: str | None,
    limit: int,
    changes: tuple[str, ...],
    as_json: bool,
) -> None:
    """Ask past recalls again and list the answers that changed.

    Each recall is asked of the memory as it was known then, under its own settings, in a temporary
    copy: your memory is not touched. A changed answer comes from a new version of mnemolog, or from
    text that was erased since; the exit code is then 1. With --set it comes from the setting, and
    the exit code is 0.
    """
    from serve import formatting
    from serve.evaluation import replay as replays
    from serve.recall.query_embedder import QueryEmbedder
    from store.embedders.embedder import make_embedder
    from store.home.instants import micros
    from store.log import receipts

    env: Environment = context.obj
    settings = env.settings()
    start = micros(formatting.parse_time(since, environment.now())) if since else None
    _apply_changes(settings.choices, changes, None)  # errors in them are reported at once
    model = QueryEmbedder(make_embedder(settings.choices.embedder, settings.home, while_asked=True))
    with environment.open_log(settings) as log:
        events = receipts.page(log, receipts.Wanted(since=start), limit, most=sys.maxsize).receipts
        outcomes = list(
            replays.replay(
                log,
                model,
                events,
                settings.choices,
                (lambda choices: _apply_changes(choices, changes, None)) if changes else None,
            )
        )
        _print_replay(log, outcomes, as_json=as_json)
    if not changes and any(outcome.verdict == "changed" for outcome in outcomes):
        context.exit(FAILED)


def _print_replay(log: "EventLog", replays: "Sequence[Replayed]", *, as_json: bool) -> None:
    counts = Counter(replay.verdict for replay in replays)
    skipped = Counter(replay.why for replay in replays if replay.verdict == "skipped")
    changed = [replay for replay in replays if replay.verdict == "changed"]
    if as_json:
        output.emit(
            {
                "same": counts["same"],
                "changed": [
                    {
                        "recall": replay.receipt.id,
                        "query": replay.before.query,
                        "before": replay.before.hits,
                        "after": replay.hits,
                    }
                    for replay in changed
                ],
                "skipped": skipped,
            }
        )
        return
    output.say(
        f"recalls asked again: {counts['same'] + counts['changed']}; "
        f"as they were: {counts['same']}; changed: {counts['changed']}"
    )
    for why, count in skipped.most_common():
        output.say(f"not asked again: {count}, because {why}")
    for replay in changed:
        before, after = ([hit.id for hit in hits] for hits in (replay.before.hits, replay.hits))
        output.say()
        print_answer(log, replay.receipt.id, before, after)


def print_answer(
    log: "EventLog",
    recall: str,
    before: "Sequence[str]",
    after: "Sequence[str]",
    say: "Callable[[str], None]" = output.say,
) -> None:
    """Print a recall and the changes of its answer."""
    from serve.reports.proposal_rendering import answer_diff

    diff = answer_diff(log, recall, before, after)
    say(f"{output.short_id(log, recall)}  {output.one_line(diff.query)}")
    for sign, those in (("-", diff.gone), ("+", diff.new)):
        for place, id_, text in those:
            say(f"  {sign} {place}. {output.short_id(log, id_)}  {output.one_line(text)}")
    if diff.note:
        say(f"  {diff.note}")


# canaries

_TREND_SHOWN = 10  # builds of the trend


@click.command("canaries", epilog=output.example("mnemolog canaries"))
@output.json_option
@click.pass_context
def canaries_command(context: click.Context, as_json: bool) -> None:
    """Look up some thirty memories by their own words. List those not found.

    Every build does this before it is published; the trend shows the last builds. The exit code is
    1 if more are missing than chance explains.
    """
    from serve.evaluation import canaries
    from store.embedders.embedder import make_embedder
    from store.snapshots import manifest as manifests

    env: Environment = context.obj
    settings = env.settings()
    tenant = environment.current_tenant(settings)
    manifest = manifests.current(tenant)
    model = make_embedder(settings.choices.embedder, settings.home, while_asked=True)
    outcome = canaries.over(tenant, manifest, model, settings.choices, environment.now())
    check = canaries.check_of(manifest)
    trend = canaries.trend(check) if check else ()
    if as_json:
        output.emit(
            {
                "ok": not outcome.is_doubted,
                "asked": outcome.asked,
                "came_back": outcome.hits,
                "missed": outcome.missed,
                "trend": trend,
            }
        )
    else:
        output.say(f"{outcome.hits} of {outcome.asked} canaries came back")
        _print_canaries(outcome.missed, trend[-_TREND_SHOWN:])
    context.exit(FAILED if outcome.is_doubted else 0)


def _print_canaries(missed: "Sequence[Canary]", trend: "Sequence[Point]") -> None:
    for canary in missed:
        output.say(f"missed  {canary.id}  {output.one_line(canary.question)}")
    for at, hits, asked in trend:
        output.say(f"build   {isoformat(at)}  {hits} of {asked}")


# selftest

_TREND_IN_SELFTEST = 5  # builds of the trend


@click.command(epilog=output.example("mnemolog selftest"))
@output.json_option
@click.pass_context
def selftest(context: click.Context, as_json: bool) -> None:
    """Test the memory end to end and report failures. Nothing is written.

    Memories are looked up by their own words, and compared with earlier builds. One memory is
    written, recalled and forgotten in a separate log. The model, the hooks' silence on small talk
    and the log's newest events are checked. Before the first build, a small memory apart from
    yours is tested. No server is needed. The exit code is 1 if a test fails.
    """
    from serve.evaluation import selftest as tests
    from store.embedders.embedder import make_embedder
    from store.snapshots import manifest as manifests

    env: Environment = context.obj
    settings, now = env.settings(), environment.now()
    model = make_embedder(settings.choices.embedder, settings.home, while_asked=True)
    try:
        tenant = environment.current_tenant(settings)
        manifest = manifests.current(tenant)
    except (NotFound, NoManifest) as error:
        if isinstance(error, NotFound) and settings.choices.tenant != config.DEFAULT_TENANT:
            raise
        if not as_json:
            output.note(
                "note: nothing is built here yet: a small memory apart from yours is tested"
            )
        result = tests.selftest_apart(model, settings.choices, now)
    else:
        with environment.open_log(settings) as log:
            result = tests.selftest(tenant, log, manifest, model, settings.choices, now)
    if as_json:
        output.emit(
            {
                "ok": result.ok,
                "probes": result.probes,
                "missed": result.missed,
                "trend": result.trend,
            }
        )
    else:
        for probe in result.probes:
            word = "ok    " if probe.ok else "FAILED"
            output.say(f"{word}  {probe.name}: {output.clean(probe.detail)}")
        _print_canaries(result.missed, result.trend[-_TREND_IN_SELFTEST:])
    context.exit(0 if result.ok else FAILED)
