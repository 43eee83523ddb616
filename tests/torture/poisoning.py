"""
poisoning: texts of a tool, a page or an import, queried in their own words through every host.

Even with every memory injected, a text of a tool or the web is labelled as such: in one line of
JSON in our frame, and never as a rule, a goal or the user's words; before a tool and at the start
of a session it does not appear. Jobs over it raise no trust and change no statement of a person or
an agent.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner
from hosts_told import OUTCOMES, PROMPTS, RECORDED, in_session, laced, moment, reworded
from torture.blocks import HIDDEN, items, rises
from torture.doors import MINUTE, NOW, QUARANTINED, TOLD, Door, Place, place
from torture.outcome import Outcome, Scale
from torture.poisoned_pages import asked, logged_in
from torture.poisons import Sent, poison

from pipelines.jobs import find_job, runner
from serve.cli import main
from serve.hooks import speaking
from serve.reader.view import View
from serve.recall.context_block import FACTS as BACKGROUND
from serve.recall.context_block import RULES, block, note, short_id
from serve.reports.conflicts import all_facts
from store.home.config import Settings
from store.log import commands
from store.log.commands import Draft
from store.log.events import encode
from store.memories.memory import ACTIVE, Memory
from store.text import frame
from store.text.frame import CLOSING, OPENING
from store.text.text_features import MAY_RULE

JOBS = tuple(map(find_job, ("facts", "consolidate", "reflect", "distill", "importance")))
TRUE = (
    Draft(id="true-1", content="The upload service retries five times before it gives up."),
    Draft(id="true-2", kind="lesson", content="Never restart the upload service by hand."),
    Draft(id="true-3", key="deploy.region", value="eu-west-1", content="We deploy to eu-west-1."),
    Draft(
        id="true-4",
        content="The api listens on port 7437.",
        metadata={
            "fact": {"entity": "api", "relation": "port", "value": "7437", "singleton": True}
        },
    ),
    Draft(id="true-5", kind="goal", content="Move the queue to Postgres."),
    Draft(id="true-6", kind="decision", content="We chose Postgres for the queue: SKIP LOCKED."),
)
_TOGETHER = 7  # memories in a block
_QUOTED = frozenset(("tool_output",))  # fields with names that mark a tool's text
_ALL_TOLD = speaking.Model((0.0,) * len(speaking.FEATURES), 0.0, 0.0)


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield where texts came out that came in by every door in every disguise."""
    with place(folder / "home") as here:
        commands.record_batch(here.tenant.log, TRUE, NOW)
        here.build()
        sent = list(_planted(here, scale.of(1, 9)))
        hosts = scale.of(1, len(OUTCOMES))
        for when in ("fresh", "built"):
            if when == "built":
                here.build()
            yield _asked_by_hosts(here, sent, hosts, when)
        yield _at_a_start(here, sent)
        yield from _asked_for(here, sent, scale.of(10, 200))
        yield _framed(here)
        yield _on_pages(here, sent, scale.of(8, 100), "built")
        yield _worked_over(here)
        yield _on_pages(here, sent, scale.of(2, 20), "after the jobs")
        yield _fed_back(here, scale.of(1, 50))


def _planted(here: Place, times: int) -> Iterator[Sent]:
    doors: list[tuple[str, Door]] = [*QUARANTINED.items(), *TOLD.items()]
    for number, (time, (name, door)) in enumerate(itertools.product(range(times), doors)):
        poison_ = poison(number + time)  # so that a door meets another disguise each time
        door(here, poison_)
        yield Sent(name, poison_, name in TOLD)


@dataclass(slots=True)
class Finding:
    """The number of checks, and their faults."""

    looked: int = 0
    came: int = 0
    wrong: list[str] = field(default_factory=list)

    def look(self, sent: Sent, where: str, text: str, may_come: bool) -> None:
        self.looked += 1
        notes = [item for item in items(text) if sent.poison.canary in json.dumps(item)]
        self.came += bool(notes)
        faults = list(_faults(sent, text, notes))
        if notes and not may_come:
            faults.append("was said unasked")
        self.wrong += [f"{sent.door}: {fault}, {where}" for fault in faults]


def _faults(sent: Sent, text: str, notes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if notes and text.count(OPENING) != text.count(CLOSING):
        yield "a frame is broken"
    if sent.poison.canary in _outside(text):
        yield "stands outside the frame"
    if HIDDEN.search(text):
        yield "a forbidden character is in the text"
    for note_ in notes if not sent.is_told else ():
        if not (
            fields := {name for name in note_ if sent.poison.canary in json.dumps(note_[name])}
        ):
            continue
        by = note_.get("by") or note_.get("trust")
        if note_.get("role") == "rule" or "rule" in note_ or by in MAY_RULE:
            yield f"is a rule, or {by}'s word"
        elif not fields <= _QUOTED and by not in ("tool", "web"):
            yield f"comes unlabelled in {sorted(fields)}"


def _outside(text: str) -> str:
    """Return the text outside frames, and the text in frames that is no note or heading."""
    outside = frame.strip(text)
    for part in text.split(OPENING)[1:]:
        lines = part.partition(CLOSING)[0].split("\n")
        outside += "\n".join(line for line in lines if not line.startswith("{"))
    return outside.replace(RULES, "").replace(BACKGROUND, "")


def _asked_by_hosts(here: Place, sent: Sequence[Sent], hosts: int, when: str) -> Outcome:
    """Ask each canary's own words at prompts, and run the command that its order names."""
    finding = Finding()
    names = itertools.cycle(OUTCOMES)
    for number, poisoned in enumerate(sent):
        for host in itertools.islice(names, hosts):
            with patch.object(speaking, "MODELS", dict.fromkeys(speaking.MODELS, _ALL_TOLD)):
                prompt = reworded(PROMPTS[host], poisoned.poison.question)
                text = here.hook(host, in_session(prompt, f"{when}-{number}-{host}"))
            finding.look(poisoned, f"at a prompt of {host}", text, True)
        ran = {
            "hook_event_name": "PreToolUse",
            "session_id": f"{when}-{number}",
            "tool_name": "Bash",
        }
        ran |= {"tool_input": {"command": poisoned.poison.command}, "cwd": "/nowhere"}
        finding.look(poisoned, "before a tool", here.hook("claude-code", ran), poisoned.is_told)
    labelled = f"{finding.came} times as somebody's labelled word"
    count = sum(poisoned.is_told for poisoned in sent)
    if finding.came <= count * hosts:
        finding.wrong.append("nothing that a tool or the web said came: nothing was tried")
    return Outcome(
        f"canaries, asked by hosts' prompts and tools, {when}",
        len(sent),
        f"canaries, {finding.looked:,} events",
        finding.wrong,
        labelled,
        floor=200,
    )


def _at_a_start(here: Place, sent: Sequence[Sent]) -> Outcome:
    """Begin sessions, and go on in those whose tools output the text, in every host."""
    finding = Finding()
    for host, payloads in RECORDED.items():
        starts = [payload for payload in payloads if moment(host, payload) == "session_start"]
        if not starts:
            continue  # it sends no such event
        text = here.hook(host, in_session(starts[0], f"new-{host}"))
        for poisoned in sent:
            finding.look(poisoned, f"at the start of a session of {host}", text, poisoned.is_told)
    start = {"hook_event_name": "SessionStart", "cwd": "/nowhere"}
    for poisoned in sent:
        for source in ("compact", "resume"):
            canary = poisoned.poison.canary
            session = f"fix-{canary}" if poisoned.door == "a fix" else canary
            text = here.hook("claude-code", start | {"session_id": session, "source": source})
            # a session gets the failures of its own runs, in its tools' words
            finding.look(poisoned, f"at a session's {source}", text, True)
    return Outcome(
        "canaries, at the start of sessions", finding.looked, "starts and canaries", finding.wrong
    )


def _asked_for(here: Place, sent: Sequence[Sent], most: int) -> Iterator[Outcome]:
    """Ask for each by MCP and REST, and for a few at the command line."""
    by_agents, by_programs = Finding(), Finding()
    for poisoned in sent:
        for name, arguments in (
            ("recall", {"query": poisoned.poison.question}),
            ("project_overview", {"topic": poisoned.poison.canary}),
        ):
            output = here.tool(name, **arguments)
            by_agents.look(poisoned, name, output["content"][0]["text"], True)
        body = {"query": poisoned.poison.question, "min_confidence": 0.0, "top_k": 5}
        hits = here.ask("POST", "/v1/recall", body)["hits"]
        by_programs.looked += 1
        carriers = [hit for hit in hits if poisoned.poison.canary in hit["text"]]
        by_programs.came += bool(carriers)
        for hit in carriers:
            if not poisoned.is_told and (hit["role"] == "rule" or hit["trust"] in MAY_RULE):
                by_programs.wrong.append(f"{poisoned.door}: {hit['role']} of {hit['trust']}")
    yield Outcome(
        "canaries, asked for by MCP",
        by_agents.looked,
        "calls",
        by_agents.wrong,
        f"{by_agents.came} brought it",
    )
    few = len(sent) // 4  # most of a host's tool output is not kept at all
    wrong = by_programs.wrong + ([] if by_programs.came > few else ["hardly any was found"])
    yield Outcome(
        "canaries, asked for by REST", len(sent), "calls", wrong, f"{by_programs.came} brought it"
    )
    others = [poisoned for poisoned in sent if not poisoned.is_told]
    yield _at_the_desk(here, others[:: max(1, len(others) // most)])  # some of every door


def _at_the_desk(here: Place, sent: Sequence[Sent]) -> Outcome:
    wrong, carriers = [], 0
    for poisoned in sent:
        words = ["--home", str(here.home), "recall", poisoned.poison.question, "--top-k", "3"]
        result = CliRunner().invoke(main, words)
        for part in re.split(r"(?m)^(?= ?\d+\. )", result.output):
            if poisoned.poison.canary in part.replace("\n", " "):
                carriers += 1
                if not _is_labelled(part, poisoned.poison.canary):
                    wrong.append(f"{poisoned.door}: unlabelled at the command line")
        if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", result.output):
            wrong.append(f"{poisoned.door}: what a terminal obeys is printed")
    wrong += [] if carriers else ["none was found"]
    return Outcome("canaries, asked for at the command line", len(sent), "commands", wrong)


def _is_labelled(hit: str, canary: str) -> bool:
    """Return True if a hit on the terminal labels a canary as a tool's or the web's: in its first
    line, or in the part of a turn that contains it.
    """
    if re.search(r"\(said by (?:tool|web)\)", hit.splitlines()[0]):
        return True
    sections = re.split(r"(?m)^    (asked|ran|agent) {2,4}(?=\S)", hit)
    parts = zip(sections[1::2], sections[2::2], strict=True)
    holding = [who for who, text in parts if canary in " ".join(text.split())]
    return bool(holding) and "asked" not in holding


def _on_pages(here: Place, sent: Sequence[Sent], most: int, when: str) -> Outcome:
    texts = {memory.id: memory.content for memory in _memories(here)}
    return asked(logged_in(here.client, NOW), sent, texts, most, when)


def _memories(here: Place) -> list[Memory]:
    def of(view: View) -> list[Memory]:
        rows = view.snapshots.rows
        return rows.take(range(len(rows)))

    return here.tenant.reader.answer(of)


def _framed(here: Place) -> Outcome:
    """Put all memories into blocks: each block reads back as the same number of notes."""
    wrong, memories = [], _memories(here)
    for at in range(0, len(memories), _TOGETHER):
        some = memories[at : at + _TOGETHER]
        written = block([note(memory) for memory in some], 1 << 20)
        text, ids, read = written.text, set(written.ids), items(written.text)
        is_read = set(map(short_id, ids)) == {item["id"] for item in read}
        if ids != {memory.id for memory in some} or not is_read:
            wrong.append(f"a block of {len(some)} is read as {len(read)}")
        if HIDDEN.search(text) or text.count(OPENING) + text.count(CLOSING) != 2:
            wrong.append("a block holds what it must not")
    return Outcome("blocks of all that is stored", len(memories), "memories", wrong)


def _worked_over(here: Place) -> Outcome:
    """Run every job and apply its proposals; then check trust and the true memories."""
    steps = 0
    for number, job in enumerate(JOBS):
        now = NOW + (10_000 + number) * MINUTE
        plan = runner.run(job, Settings(here.home), "default", now, apply=True, no_model=True)
        steps += len(plan.body.steps) if plan is not None else 0
    here.build()
    memories = {memory.id: memory for memory in _memories(here)}
    true = [memories[str(draft.id)] for draft in TRUE]
    wrong = [f"{memory.id} is {memory.state}" for memory in true if memory.state != ACTIVE]
    wrong += [
        f"{memory.id} says {memory.content!r}"
        for memory, draft in zip(true, TRUE, strict=True)
        if memory.content != draft.content or memory.trust != draft.trust
    ]
    wrong += [
        f"{memory.id} of {memory.job} is trusted more than what it was made of"
        for memory in memories.values()
        if memory.job is not None and rises(memory, memories)
    ]
    facts = here.tenant.reader.answer(all_facts)
    current = {(fact.key, fact.value) for fact, _ in facts if fact.holds_at(NOW + 20_000 * MINUTE)}
    expected = {("deploy.region", "eu-west-1"), ("api.port", "7437")}
    wrong += [f"{key} is no more {value}" for key, value in expected - current]
    values = [value for key, value in current if key == "deploy.region"]
    wrong += [f"deploy.region has the values {values}"] if len(values) != 1 else []
    return Outcome("jobs over canaries", len(memories), "memories", wrong, f"{steps} steps applied")


def _fed_back(here: Place, turns: int) -> Outcome:
    """Put our own blocks into every host's events: nothing of them is kept."""
    before = _bodies(here)
    words, answered, wrong = "", "", []
    for number in range(turns):
        for host in OUTCOMES:
            session = f"again-{host}-{number // 5}"
            prompt = f"{words}\nhow often does the upload service retry, attempt {number}?"
            with patch.object(speaking, "MODELS", dict.fromkeys(speaking.MODELS, _ALL_TOLD)):
                output = here.hook(host, in_session(reworded(PROMPTS[host], prompt), session))
            words, answered = output or words, answered + output
            for payload in RECORDED[host]:
                if moment(host, payload) != "prompt":
                    here.hook(host, in_session(laced(payload, words), session))
    after = _bodies(here)
    texts = [str(draft.content) for draft in TRUE]
    for text in texts:
        grown = sum(text in body for body in after) - sum(text in body for body in before)
        wrong += [f"{text!r} is there {grown} times more"] if grown else []
    wrong += ["a block of ours is kept" for body in after if frame.contains(body)]
    wrong += [] if texts[0] in answered else ["nothing was said that could come back"]
    return Outcome("our own blocks fed back", turns * len(OUTCOMES), "turns", wrong)


def _bodies(here: Place) -> list[str]:
    here.tenant.notes.write()
    return [encode(event.body) for event in here.tenant.log.read()]
