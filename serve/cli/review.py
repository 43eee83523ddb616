"""
`mnemolog review`: all pending decisions, one at a time, with both sides.

Lessons, recommendations and plans are proposals and answered as such; a conflict is settled by one
of the commands that it names. Without a terminal nothing is asked: the pending decisions are
printed, with the commands that act on them.
"""

import difflib
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from store.home.errors import MnemologError
from store.home.instants import isoformat
from store.home.projects import holds_in
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Revised
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_queries import newest_change
from store.plans import proposals
from store.plans.proposals import Changed, Proposal, Sort
from store.text.excerpt import plural

if TYPE_CHECKING:
    from store.home.config import Settings

Done = TypeVar("Done")

_STEPS_SHOWN = 4  # of a proposal, until `details` is chosen
_LEAST = 6  # letters of an id that are shown
_IN_LOG: tuple[Sort, ...] = ("recommendation", "plan")
_COMMANDS = {"lesson": "lessons", "recommendation": "recommendations", "plan": "plans"}
_SETTLE: Mapping[str, Callable[[EventLog, str, int, str], Event]] = {
    "supersede": lambda log, id_, at, by: commands.supersede(log, id_, by, at, "settled in review"),
    "forget": lambda log, id_, at, _: commands.forget(log, id_, at, "settled in review"),
    "restore": lambda log, id_, at, _: commands.restore(log, id_, at, "settled in review"),
}


@click.command(epilog=output.example("mnemolog review", "mnemolog review --only lesson"))
@click.option(
    "--only",
    type=arguments.Choice(["lesson", *_IN_LOG, "conflict"]),
    metavar="SORT",
    help="Only these: lesson, recommendation, plan or conflict.",
)
@click.option("--project", type=arguments.PROJECT, help="Only this project's; default: all.")
@output.json_option
@click.pass_obj
def review(env: Environment, /, only: str | None, project: str | None, as_json: bool) -> None:
    """Decide on what waits, one at a time. That is lessons, recommendations, plans and conflicts.

    For each you see both sides, [-what goes-] and {+what comes+}, and accept, edit, reject or leave
    it. Nothing changes without your answer, and what you leave waits. Without a terminal, it prints
    what waits and the commands that decide.
    """
    settings = env.settings()
    with environment.open_log(settings) as log:
        waiting, conflicts = _waiting(settings, log, project, only)
        if as_json:
            from serve.reports.proposal_rendering import proposal_fields

            output.emit({"proposals": list(map(proposal_fields, waiting)), "conflicts": conflicts})
        elif not waiting and not conflicts:
            output.say("nothing waits for your decision")
            from store.maintenance import quarantine  # numpy, pyarrow: not for the help

            if entries := quarantine.entries(log):
                many = plural(len(entries), "memory")
                output.note(f"{many} in quarantine: `mnemolog quarantine`")
        elif environment.can_ask():
            _ask_all(log, waiting, conflicts)
        else:
            _print_all(waiting, conflicts)


def _waiting(
    settings: "Settings", log: EventLog, project: str | None, only: str | None
) -> tuple[list[Proposal], list[dict[str, Any]]]:
    """Return the pending proposals and conflicts, of one sort or of all."""
    from serve.lessons.lesson_stats import statistics
    from serve.reader.filters import Filter
    from serve.reports.conflicts import conflict_payload, conflicts

    now, reader = environment.now(), environment.open_reader(settings, log)
    proposed: list[Proposal] = []
    if only in (None, "lesson"):  # pending statements are among the drafts
        drafts = reader.answer(lambda view: statistics(view, log, Filter(now, project))).drafts
        # advice that is held back has no text in an agent's shell
        proposed += [proposals.find(log, row["id"]) for row in drafts if row["draft"]["content"]]
    for sort in _IN_LOG:
        proposed += proposals.every(log, "waiting", sort) if only in (None, sort) else []
    waiting = [
        proposal
        for proposal in proposed
        if proposal.state == "waiting" and holds_in(proposal.project, project)
    ]
    if only not in (None, "conflict"):
        return waiting, []
    disagreeing, _ = reader.answer(lambda view: conflicts(view, log, now, project))
    return waiting, [conflict_payload(conflict, now) for conflict in disagreeing]


# Without a terminal


def _print_all(waiting: Sequence[Proposal], conflicts: Sequence[dict[str, Any]]) -> None:
    ids = [proposal.id for proposal in waiting]
    total = len(waiting) + len(conflicts)
    for number, proposal in enumerate(waiting, 1):
        _print_proposal(proposal, f"{number} of {total}", _STEPS_SHOWN)
        command, id_ = _COMMANDS[proposal.sort], output.shortest(proposal.id, ids, _LEAST)
        verb = "apply" if proposal.sort == "plan" else "accept"
        output.say(f"  $ mnemolog {command} {verb} {id_}")
        output.say(f"  $ mnemolog {command} reject {id_}")
        output.say()
    for number, conflict in enumerate(conflicts, len(waiting) + 1):
        _print_conflict(conflict, f"{number} of {total}")
        for line in conflict["settle"]:
            output.say(f"  $ {line}")
        output.say()
    output.note("next: `mnemolog review` on a terminal asks about each of them")


# On a terminal


def _ask_all(
    log: EventLog, waiting: Sequence[Proposal], conflicts: Sequence[dict[str, Any]]
) -> None:
    total = len(waiting) + len(conflicts)
    answers: Counter[str] = Counter()
    start = log.head()
    questions = [
        *(partial(_ask_about_proposal, log, proposal) for proposal in waiting),
        *(partial(_ask_about_conflict, log, conflict, start) for conflict in conflicts),
    ]
    for number, ask in enumerate(questions, 1):
        answer = ask(f"{number} of {total}")
        if answer == "quit":
            break
        answers[answer] += 1
        output.say()
    del answers["later"]
    text = ", ".join(f"{count} {answer}" for answer, count in answers.items())
    output.say(f"{text or 'nothing changed'}; {total - answers.total()} still waiting")


def _ask_about_proposal(log: EventLog, proposal: Proposal, place: str) -> str:
    """Show a proposal and carry out the answer; return the outcome."""
    if proposals.find(log, proposal.id).state != "waiting":
        return "later"  # an earlier answer made it stale; it is listed as such
    _print_proposal(proposal, place, _STEPS_SHOWN)
    words = _text_to_edit(proposal)
    answers = ["accept", *(["edit"] if words else []), "reject", "later", "quit"]
    answers += ["details"] if len(proposal.made) > _STEPS_SHOWN else []
    while True:
        match _choose(answers):
            case "accept":
                accept = partial(proposals.accept, author="typed")
                accepted = _try(partial(accept, log, proposal.id, environment.now()))
                if accepted and accepted.plan:
                    undo = accepted.plan[:_LEAST]
                    output.say(
                        click.style("accepted", fg="green")
                        + f"; to undo it: `mnemolog plans undo {undo}`"
                    )
                return "accepted" if accepted else "later"
            case "edit" if words:
                changed = click.edit(words)
                if changed and changed.strip() and changed.strip() != words.strip():
                    text = changed.strip()
                    return "edited" if _try(partial(_edit, log, proposal, text)) else "later"
                output.say("the text is as it was")
            case "reject":
                reason = click.prompt("why (may be empty)", default="", show_default=False)
                now = environment.now()
                rejected = _try(partial(proposals.reject, log, proposal.id, now, reason or None))
                return "rejected" if rejected else "later"
            case "details":
                _print_proposal(proposal, place, len(proposal.made))
            case answer:
                return answer


def _text_to_edit(proposal: Proposal) -> str | None:
    """Return the text that a proposal records or rewrites; None unless it has a single text."""
    texts = [
        step.body["content"] for step in proposal.made if isinstance(step.body.get("content"), str)
    ]
    return texts[0] if len(proposal.made) == len(texts) == 1 else None


def _edit(log: EventLog, proposal: Proposal, text: str) -> str:
    """Write a person's own words in place of the proposed ones; return the memory's id."""
    (step,), now = proposal.made, environment.now()
    if step.event == "revised":
        changes = Revised(content=text)
        id_ = commands.revise(log, step.subject, changes, now, author="typed").subject
    else:
        kind = step.body.get("kind", "fact")
        draft = Draft(content=text, kind=kind, project=proposal.project, author="typed")
        id_ = commands.record(log, draft, now).event.id
    proposals.reject(log, proposal.id, now, f"said in other words: {id_}")
    return id_


def _ask_about_conflict(log: EventLog, conflict: dict[str, Any], start: int, place: str) -> str:
    """Show a conflict and settle it as answered; return the outcome.

    `start` is the log's head from before the first question.
    """
    if any(newest_change(log, side["id"]) > start for side in conflict["sides"]):
        output.say(f"{place}  a conflict that an answer before has changed")
        return "later"
    _print_conflict(conflict, place)
    ways = [words for line in conflict["settle"] if (words := shlex.split(line)[1:])[0] in _SETTLE]
    for number, words in enumerate(ways, 1):
        output.say(f"  {number}  {' '.join(words)}")
    numbers = [str(number) for number, _ in enumerate(ways, 1)]
    answer = _choose([*numbers, "later", "quit"])
    if answer not in numbers:
        return answer
    verb, id_, *rest = ways[int(answer) - 1]
    by = rest[-1] if rest else ""
    return "settled" if _try(partial(_SETTLE[verb], log, id_, environment.now(), by)) else "later"


def _choose(answers: Sequence[str]) -> str:
    """Return the typed answer; its first letter is enough."""
    while True:
        typed = click.prompt(", ".join(answers), default="later").strip().casefold()
        if matches := [answer for answer in answers if answer.startswith(typed)]:
            return matches[0]


def _try(do: Callable[[], Done]) -> Done | None:
    """Return the result of `do`; None, with a note, if it fails: the rest can still be answered."""
    try:
        return do()
    except MnemologError as error:
        output.note(f"this one still waits: {error}")
        return None


# Both sides


def _print_proposal(proposal: Proposal, place: str, most: int) -> None:
    of = f"  {output.clean(proposal.project)}" if proposal.project else ""
    title = (
        output.clean(f"{proposal.sort}: {proposal.title}")
        if proposal.sort != "lesson"
        else "lesson"
    )
    head = f"{place}  {isoformat(proposal.at)[:10]}{of}"
    output.say(click.style(head, bold=True))
    for line in output.block(title, "  ", 2):
        output.say(line)
    for reason in proposal.because:
        output.say(f"  because {output.one_line(reason, 160)}")
    for step in proposals.steps(proposal, 0, most):
        for line in _step_lines(step):
            output.say(f"  {_colour(line)}")
    if len(proposal.made) > most:
        output.say(f"  … and {len(proposal.made) - most} more")


def _step_lines(step: Changed) -> Iterator[str]:
    why = f": {output.one_line(step.why, 120)}" if step.why else ""
    yield f"{step.verb}{why}"
    if step.text:
        yield from output.block(step.text, "    ")
    for change in step.changes:
        if change.before == change.after:
            continue
        name = "" if change.field == "content" else f"{change.field}: "
        yield from output.block(f"{name}{word_diff(change.before, change.after)}", "    ", 8)


def _colour(line: str) -> str:
    text, colour = "", None
    for part in re.split(r"(\[-|-\]|\{\+|\+\})", line):
        colour = {"[-": "red", "{+": "green"}.get(part, colour)
        text += click.style(part, fg=colour) if colour and part else part
        colour = None if part in ("-]", "+}") else colour
    return text


def word_diff(before: Any, after: Any) -> str:
    """Return two values as one text, removals as [-such-] and additions as {+such+}; a value that
    is only added follows a +, one that is only removed a -.
    """
    if before is None or after is None:
        return f"+ {after}" if before is None else f"- {before}"
    old, new = str(before), str(after)
    a, b = (re.findall(r"\s+|\w+|[^\w\s]", text) for text in (old, new))
    parts = []
    for tag, start, end, first, last in difflib.SequenceMatcher(
        None, a, b, autojunk=False
    ).get_opcodes():
        removed, added = "".join(a[start:end]), "".join(b[first:last])
        if tag == "equal":
            parts.append(removed)
            continue
        parts += [f"[-{removed}-]"] if removed else []
        parts += [f"{{+{added}+}}"] if added else []
    return "".join(parts)


def _print_conflict(conflict: dict[str, Any], place: str) -> None:
    about = f"{output.one_line(conflict['about'])}: " if conflict["about"] else ""
    output.say(click.style(f"{place}  conflict", bold=True))
    output.say(f"  {about}{output.one_line(conflict['why'], 120)}")
    for side in conflict["sides"]:
        value = f"  {output.one_line(side['value'], 40)}" if side["value"] else ""
        output.say(f"  {side['at'][:10]}  {output.one_line(side['said_by'], 24)}{value}")
        for line in output.block(side["text"], "    ", 4):
            output.say(line)
