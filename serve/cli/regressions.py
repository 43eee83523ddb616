"""Commands that pin an answer or explain its change: `expect`, `bisect`, `receipts`."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from serve import formatting
from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from serve.cli.group import FAILED
from store.home.errors import NotFound
from store.home.instants import isoformat, micros
from store.log.event_log import EventLog

if TYPE_CHECKING:
    from serve.evaluation.bisection import Change
    from serve.evaluation.expectations import Outcome
    from serve.recall.recall import Hit
    from store.log.events import Event


@click.command(
    epilog=output.example(
        'mnemolog expect "how often is an upload retried" 01KA2B3C4D',
        "mnemolog expect                 # ask every pinned question now",
        'mnemolog expect "how often is an upload retried" 01KA2B3C4D --remove',
    )
)
@click.argument("question", required=False)
@click.argument("id_", metavar="[ID]", required=False, type=arguments.MEMORY)
@click.option("--remove", is_flag=True, help="Remove the pin.")
@arguments.project_option
@click.option("--all-projects", is_flag=True, help="Ask in all projects.")
@output.json_option
@click.pass_context
def expect(
    context: click.Context,
    question: str | None,
    id_: str | None,
    remove: bool,
    project: str | None,
    all_projects: bool,
    as_json: bool,
) -> None:
    """Pin QUESTION to the memory ID that must answer it. Every build asks it again.

    A copy of the memory counts, and so does what took its place. A build whose answer lacks it
    warns: `mnemolog doctor` names the question. Without arguments, ask all pinned questions now;
    the exit code is 1 if one does not bring back its memory.
    """
    from serve.evaluation import expectations

    env: Environment = context.obj
    settings, now = env.settings(), environment.now()
    if (question is None) != (id_ is None):
        raise click.UsageError("give a question and the ID of the memory that must answer it")
    with environment.open_log(settings) as log:
        if question is None or id_ is None:
            if remove:
                raise click.UsageError("--remove needs the question and the ID")
            expected = expectations.list_expectations(log)
        else:
            from store.log.commands import resolve

            belongs = environment.project_or_default(settings, project, none=all_projects)
            wanted = resolve(log, id_)
            text = output.encodable(question)
            expected = [expectations.expect(log, text, wanted, belongs, now, expected=not remove)]
        if remove:
            [pin] = expected
            if as_json:
                output.emit({"question": pin.question, "id": pin.id, "removed": True})
            else:
                output.say(f'no longer expected of "{output.one_line(pin.question)}"')
            return
        reader = environment.open_reader(settings, log)
        outcomes = reader.answer(
            lambda view: expectations.ask(view, expected, settings.choices, now)
        )
        if as_json:
            output.emit({"expected": outcomes})
        else:
            _print_expected(log, outcomes)
    if question is None and any(outcome.rank is None for outcome in outcomes):
        context.exit(FAILED)


def _print_expected(log: EventLog, outcomes: "list[Outcome]") -> None:
    if not outcomes:
        output.say('no question is pinned. Pin one: `mnemolog expect "QUESTION" ID`')
        return
    output.table(
        ["result", "question", "memory", "text"],
        [
            [
                "missing" if outcome.rank is None else str(outcome.rank),
                output.one_line(outcome.expectation.question, 60),
                output.short_id(log, outcome.expectation.id),
                output.first_words(log, outcome.expectation.id),
            ]
            for outcome in outcomes
        ],
    )
    if any(outcome.rank is None for outcome in outcomes):
        output.note("next: `mnemolog bisect QUESTION --expect ID` names the event since which")


# bisect


@click.command(
    epilog=output.example(
        'mnemolog bisect "how many approvals does a deploy need"',
        'mnemolog bisect "how many approvals does a deploy need" --expect 01KA2B3C4D',
        'mnemolog bisect "how many approvals does a deploy need" --until "two approvals"',
    )
)
@click.argument("question")
@click.option(
    "--expect",
    "id_",
    metavar="ID",
    type=arguments.MEMORY,
    help="Since when does this memory come back, or no longer?",
)
@click.option(
    "--until", "text", metavar="TEXT", help="Since when do the results contain TEXT, or no longer?"
)
@click.option(
    "--since", help="When the answer was another: 2026-11-20, 7d, @1234 of the log, or a commit."
)
@arguments.project_option
@click.option("--all-projects", is_flag=True, help="Ask in all projects.")
@output.json_option
@click.pass_obj
def bisect(
    env: Environment,
    /,
    question: str,
    id_: str | None,
    text: str | None,
    since: str | None,
    project: str | None,
    all_projects: bool,
    as_json: bool,
) -> None:
    """Name the event since which QUESTION is answered as it is now.

    The memory is built as it was known at the middle of its log, then at the middle of the half in
    which the answer changed, and so on: some 14 builds for 10,000 events. Without --expect or
    --until, answers differ if their memories or the order of these do. Nothing is changed.
    """
    from serve.evaluation import bisection
    from serve.reader.filters import Filter
    from serve.reader.past import find_place
    from serve.recall.analysis import default_question
    from store.log.commands import resolve

    if id_ is not None and text is not None:
        raise click.UsageError("give --expect or --until, not both")
    settings, now = env.settings(), environment.now()
    belongs = environment.project_or_default(settings, project, none=all_projects)

    def report(seq: int, is_as_now: bool) -> None:
        if not as_json:
            output.note(f"@{seq}: {'as now' if is_as_now else 'another answer'}")

    with environment.open_log(settings) as log:
        reader = environment.open_reader(settings, log)
        default = default_question(
            output.encodable(question), Filter(now=now, project=belongs), settings.choices
        )
        search = bisection.Search(log, reader, default, report)
        start = None
        if since:
            start = find_place(log, since, settings.choices, now, Path.cwd()).seq
        if id_ is not None:
            change = search.memory(resolve(log, id_), start)
        elif text is not None:
            change = search.text(text, start)
        else:
            change = search.answer(start)
        if as_json:
            output.emit(_change_fields(change))
        else:
            _print_change(log, change)


def _change_fields(change: "Change") -> dict[str, Any]:
    event = change.event
    return {
        "event": {
            "seq": event.seq,
            "id": event.id,
            "kind": event.kind,
            "at": isoformat(event.at),
            "subject": event.subject,
            "project": event.project,
            "session": event.session,
            "agent": event.agent,
            "trust": event.trust,
        },
        "before": [hit.memory.id for hit in change.before],
        "after": [hit.memory.id for hit in change.after],
        "events": change.events,
        "folds": change.folds,
    }


def _print_change(log: EventLog, change: "Change") -> None:
    event, at = change.event, output.minute(isoformat(change.event.at))
    output.say(f"@{event.seq}  {event.kind}  {at}  {_maker(event)}")
    if words := output.first_words(log, event.subject):
        output.say(f"  {output.short_id(log, event.subject)}  {words}")
    if reason := getattr(event.body, "reason", None):
        output.say(f"  reason: {output.one_line(reason)}")
    output.say()
    output.say("what it changed in the answer:")
    for line in _differences(log, change.before, change.after):
        output.say(f"  {line}")
    output.say()
    output.note(f"{change.folds} builds for {change.events:,} events")


def _maker(event: "Event") -> str:
    """Return the maker of an event: an agent, a job, an importer's source or you."""
    origin = getattr(event.body, "made", None)
    source = getattr(event.body, "source", None)
    who = (
        f"the job {origin.job}"
        if origin
        else event.agent or ("you" if event.trust == "user" else "")
    )
    words = [
        f"by {who}" if who else "",
        f"said by {event.trust}" if event.trust != "user" else "",
        f"from {source}" if source else "",
        f"in session {event.session}" if event.session else "",
        f"of {event.project}" if event.project else "",
    ]
    return output.one_line(", ".join(filter(None, words)), 120)


def _differences(log: EventLog, before: "Sequence[Hit]", after: "Sequence[Hit]") -> Iterator[str]:
    """Yield a line for each hit that left, came or moved: none for hits in the same place, and for
    unsure hits only if no sure hit changed.
    """
    old = {hit.memory.id: rank for rank, hit in enumerate(before, 1)}
    new = {hit.memory.id: rank for rank, hit in enumerate(after, 1)}
    changed = [hit for hit in before if hit.memory.id not in new]
    changed += [hit for hit in after if new[hit.memory.id] != old.get(hit.memory.id)]
    for hit in [hit for hit in changed if not hit.is_unsure] or changed:
        id_ = hit.memory.id
        unsure = " (unsure)" if hit.is_unsure else ""
        line = f"{output.short_id(log, id_)}  {output.one_line(hit.memory.text, 50)}{unsure}"
        if id_ not in new:
            yield f"- {old[id_]:2}. {line}"
        elif id_ not in old:
            yield f"+ {new[id_]:2}. {line}"
        else:
            yield f"  {old[id_]:2}. is now {new[id_]}. {line}"


# receipts

_LISTED = 20
_folder = click.Path(path_type=Path, file_okay=False)


@click.group(
    "receipts",
    invoke_without_command=True,
    epilog=output.example(
        "mnemolog receipts --since 7d",
        "mnemolog receipts show 01KA2B3C4D",
        "mnemolog receipts bundle last --out report",
    ),
)
@arguments.since_option
@arguments.until_option
@click.option("--project", type=arguments.PROJECT, help="Only recalls in this project.")
@click.option(
    "--memory", "id_", metavar="ID", type=arguments.MEMORY, help="Only those that returned it."
)
@click.option("--silent", is_flag=True, help="Only those without results.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=_LISTED, help="The maximum number.")
@output.json_option
@click.pass_context
def receipts_command(
    context: click.Context,
    since: str | None,
    until: str | None,
    project: str | None,
    id_: str | None,
    silent: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List recalls, newest first: what was asked and how much came back."""
    if context.invoked_subcommand is not None:
        return
    from serve.reports.receipts import receipt_summary
    from store.log import receipts
    from store.log.commands import resolve

    env: Environment = context.obj
    now = environment.now()
    start, end = (formatting.parse_optional_time(text, now) for text in (since, until))
    with environment.open_log(env.settings()) as log:
        memory = resolve(log, id_) if id_ else None
        wanted = receipts.Wanted(
            since=micros(start) if start else None,
            until=micros(end) if end else None,
            project=project,
            memories=(memory,) if memory else (),
            silent=True if silent else None,
        )
        page = receipts.page(log, wanted, limit, most=sys.maxsize)
        recalls = [receipt_summary(log, event, memory) for event in page.receipts]
        if as_json:
            output.emit({"receipts": recalls})
            return
        ids = [recall["id"] for recall in recalls]
        rows = [
            (
                output.shortest(recall["id"], ids, 10),
                output.minute(recall["at"]),
                str(recall["hits"]),
                recall["agent"] or "",
                output.one_line(recall["query"], 200) or "(erased)",
            )
            for recall in recalls
        ]
    if rows:
        output.table(("id", "when", "results", "agent", "query"), rows)
    else:
        output.say("no recalls")


@receipts_command.command("show", epilog=output.example("mnemolog receipts show 01KA2B3C4D"))
@click.argument("id_", metavar="ID", type=arguments.RECALL)
@output.json_option
@click.pass_obj
def show_receipt(env: Environment, /, id_: str, as_json: bool) -> None:
    """Show what a recall was asked, what decided its answer, and what came of it.

    ID may be `last`, for the newest recall.
    """
    from serve.reports.receipts import receipt_fields

    settings = env.settings()
    with environment.open_log(settings) as log:
        receipt = _find(log, id_)
        reader = environment.open_reader(settings, log)
        payload = reader.answer(lambda view: receipt_fields(view, log, receipt))
        if as_json:
            output.emit(payload)
        else:
            _print_receipt(log, payload)


@receipts_command.command(
    "bundle", epilog=output.example("mnemolog receipts bundle 01KA2B3C4D --out report")
)
@click.argument("id_", metavar="ID", type=arguments.RECALL)
@click.option("--out", "folder", type=_folder, required=True, help="A folder to make.")
@click.option("--all-projects", is_flag=True, help="The recall of all projects, with all of them.")
@output.json_option
@click.pass_obj
def bundle_receipt(
    env: Environment, /, id_: str, folder: Path, all_projects: bool, as_json: bool
) -> None:
    """Write a folder from which a recall is asked again elsewhere: for bug reports.

    ID may be `last`, for the newest recall.
    It holds the memories of the recall's project and those of none, with their secrets redacted,
    and nothing of other projects. Look through it before you send it.
    """
    from serve.evaluation import bundle

    settings = env.settings()
    with environment.open_log(settings) as log:
        receipt = _find(log, id_)
        model = environment.open_reader(settings, log).embedder
        copy = bundle.make_bundle(
            log, model, settings.choices.embedder, receipt, all_projects=all_projects
        )
    bundle.write_bundle(copy, folder)
    if as_json:
        output.emit(
            {
                "recall": receipt.id,
                "folder": str(folder),
                "events": len(copy.events) - 1,
                "stand_ins": copy.stand_ins,
                "same": copy.is_same,
            }
        )
        return
    output.say(f"{folder}: the events of its project, secrets redacted: {len(copy.events) - 1:,}")
    if copy.is_same:
        output.say("its answer is that of the recall, to the byte")
    else:
        output.say("its answer differs from that of the recall, which other projects had a part in")
    output.note(
        f"next: look through {folder / bundle.EVENTS}, then `mnemolog receipts rerun {folder}`"
    )


@receipts_command.command("rerun", epilog=output.example("mnemolog receipts rerun report"))
@click.argument("folder", metavar="DIR", type=_folder)
@output.json_option
@click.pass_context
def rerun_receipt(context: click.Context, folder: Path, as_json: bool) -> None:
    """Ask the recall of a bundle again. Your own memory is neither read nor changed.

    The exit code is 1 where this version of mnemolog answers otherwise.
    """
    from serve.evaluation import bundle
    from store.embedders.embedder import make_embedder

    env: Environment = context.obj
    settings = env.settings()
    read = bundle.read_bundle(folder)
    model = make_embedder(settings.choices.embedder, settings.home, while_asked=True)
    replay = bundle.rerun(read, model)
    is_same = replay.verdict == "same"
    if as_json:
        output.emit({"same": is_same, "version": read.version, "hits": replay.hits})
    else:
        texts = {event.id: getattr(event.body, "content", "") for event in read.events}
        output.say(f'"{output.one_line(replay.before.query)}", asked of mnemolog {read.version}')
        for rank, hit in enumerate(replay.hits, 1):
            words = output.one_line(texts.get(hit.id, ""), 44)
            output.say(f"{rank:2}. {hit.id}  {hit.confidence:.0%}  {words}")
        output.say(
            "as in the bundle, to the byte" if is_same else "another answer than the bundle's"
        )
    context.exit(0 if is_same else FAILED)


def _find(log: EventLog, id_: str) -> "Event":
    """Return the receipt with an id, a prefix of one, or "last"; raise NotFound."""
    from store.log import receipts
    from store.log.commands import resolve_recall

    if id_ == "last":
        for newest in receipts.page(log, receipts.Wanted(), 1).receipts:
            return newest
        raise NotFound("nothing was recalled yet: `mnemolog recall` leaves a receipt")
    return receipts.find(log, resolve_recall(log, id_))


def _print_receipt(log: EventLog, payload: dict[str, Any]) -> None:
    output.say(output.clean(payload["query"]) or "(erased)")
    output.say()
    for name, value in payload.items():
        if name in ("query", "hits", "ratings", "judged", "outcomes") or value in (None, {}, []):
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
        output.say(f"{name:12}{output.clean(str(value))}")
    for hit in payload["hits"]:
        words = output.one_line(hit["memory"]["text"] if hit["memory"] else "", 50)
        id_ = output.short_id(log, hit["id"])
        output.say(f"{hit['rank']:3}. {id_}  {hit['confidence']:.0%}  {words}".rstrip())
    for rating in payload["ratings"]:
        reason = output.one_line(rating["reason"] or "")
        output.say(f"rated       {rating['verdict']:+g}  {reason}".rstrip())
    for judged in (payload["judged"] or {}).get("verdicts", ()):
        output.say(f"judged      {judged['verdict']:+g}  {output.short_id(log, judged['id'])}")
    for outcome in payload["outcomes"]:
        output.say(f"outcome     {outcome['effort']} {'passed' if outcome['passed'] else 'failed'}")


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
