"""
Explanations: a recall stage by stage, a hit's evidence, and where one memory was lost.

The first two are made of a recall's payload and load nothing that recalls.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from serve.cli import output
from serve.formatting import ANSWER_LABELS, DROPPED_LABELS, EVIDENCE_LABELS
from store.home.instants import isoformat, micros
from store.log.event_log import EventLog

if TYPE_CHECKING:
    from serve.reader.reader import Reader
    from serve.recall.request import RecallRequest
    from store.embedders.embedder import Embedder
    from store.home.config import Choices
    from store.memories.memory import Memory

_NAMED = 3  # copies


def stage_lines(log: EventLog, payload: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that tell what each stage did, in the order of the stages."""
    why = payload["why"]
    for notice in payload.get("notices", ()):
        yield f"{'degraded' if payload['degraded'] else 'notice':<12}{notice}"
    if read := ", ".join(_read_stage(why["analysis"])):
        yield f"read        {read}"
    yield f"words       {_numbers(why['words'])}"
    if why["unheard_of"]:
        yield f"unknown     {', '.join(map(output.clean, why['unheard_of']))}"
    if why["people"]:
        yield f"people      {', '.join(map(output.clean, why['people']))}"
    yield f"entities    {', '.join(map(output.clean, why['entities'])) or 'none'}"
    yield f"memories    {why['memories']}, {why['passed_filter']} passed the filter"
    yield f"candidates  {_numbers(why['candidates'])}"
    yield f"fusion      {why['fusion']}"
    yield f"profile     {why['profile']}: {_numbers(why['weights'])}"
    if route := why["route"]:
        yield f"route       {route['mode']}: {', '.join(route['actions'].values())}"
    bar = why["min_confidence"]
    yield f"threshold   {f'{bar:.2f} of confidence' if bar else 'none'}"
    if why["min_score"]:
        yield f"floor       {why['min_score']:.4f} of score"
    lost = (f"{n} {DROPPED_LABELS.get(name, name)}" for name, n in why["dropped"].items())
    yield f"left out    {'; '.join(lost) or 'none'}"
    yield f"returned    {len(payload['hits'])}"
    for rank, one in enumerate(payload["hits"], 1):
        id_ = output.short_id(log, one["id"])
        moved = f", {one['why']['fused']:.4f} as fused" if why["profile"] != "balanced" else ""
        sure = f"confidence {one['confidence']:.2f}{', unsure' if one.get('unsure') else ''}"
        yield f"{rank:3}. {id_}  {sure}  score {one['score']:.4f}{moved}"
        yield f"     {hit_reason(one['why'])}"
        yield f"     {output.one_line(one['text'])}"
        for line in mark_lines(log, one):
            yield f"     {line}"
    if hint := payload.get("hint"):
        yield f"next        {hint}"
    for title, dropped in (
        (f"closest below the threshold of {bar:.2f}; lower --min-confidence", "nearest_below_bar"),
        ("next results, with a larger --top-k", "nearest_over_top_k"),
    ):
        if why[dropped]:
            yield title
        for one in why[dropped]:
            sure, text = f"{one['confidence']:.2f}", output.one_line(one["text"], 50)
            yield f"     {output.short_id(log, one['id'])}  confidence {sure}  {text}"


def mark_lines(log: EventLog, hit: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a hit says of other memories, a line each."""
    if newer := hit.get("conflicts_with"):
        yield f"older: {output.short_id(log, newer)} has another value"
    if copies := hit.get("copies"):
        ids = ", ".join(output.short_id(log, id_) for id_ in copies[:_NAMED])
        more = f" and {len(copies) - _NAMED} more" if len(copies) > _NAMED else ""
        yield f"said {len(copies) + 1} times: also {ids}{more}"
    if insights := hit.get("insights"):
        ids = ", ".join(output.short_id(log, id_) for id_ in insights[:_NAMED])
        yield f"in insights: {ids}"
    for old in hit.get("history", ()):
        id_, text = output.short_id(log, old["id"]), output.one_line(old["text"], 50)
        yield f"until then: {text} ({old['at'][:10]}, {id_})"


def _read_stage(analysis: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was read from the question itself."""
    if language := analysis.get("language"):
        yield f"language {language}"
    if wanted := analysis.get("answer_type"):
        yield f"wants {ANSWER_LABELS[wanted]}"
    if mode := analysis.get("task_mode"):
        yield f"mode {mode}"
    if identifiers := analysis.get("identifiers"):
        yield "identifiers " + " ".join(map(output.clean, identifiers))
    if when := analysis.get("interval"):
        use = "the filter" if when.get("use") == "filter" else "preferred"
        days = f"{when['since'][:10]} until {when['until'][:10]}"
        yield f"{output.clean(when['words'])} is {days} ({use})"


def hit_reason(why: Mapping[str, Any]) -> str:
    """Return one hit's evidence as a line: its ranks, what adds up to its score, how sure it is."""
    parts = [", ".join(f"{name} #{found['rank']}" for name, found in why["channels"].items())]
    adds = sorted(why["adds"].items(), key=lambda one: -one[1])
    parts.append(
        " + ".join(f"{EVIDENCE_LABELS.get(name, name)} {value:.2f}" for name, value in adds)
    )
    parts.append(
        ", ".join(
            f"{name} {value:.2f}{_fade_note(why, name)}"
            for name, value in why["signals"].items()
            if value
        )
    )
    held = f" ({', '.join(map(output.clean, why['words']))})" if why["words"] else ""
    parts.append(f"covers {why['coverage']:.0%} of the words{held}")
    if asked := [word for word in why["question_words"] if word not in why["words"]]:
        parts.append("words of the question before it " + ", ".join(map(output.clean, asked)))
    parts.append(f"nearness {why['nearness']:.2f}")
    if why["fresh"]:
        parts.append("not built yet")
    return "; ".join(part for part in parts if part)


def _fade_note(why: Mapping[str, Any], signal: str) -> str:
    """Return what an importance was before it faded, where it did."""
    told = why["importance_told"]
    is_faded = signal == "importance" and round(told, 2) > round(why["signals"][signal], 2)
    return f" (of {told:.2f}, faded)" if is_faded else ""


def _numbers(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{output.clean(name)} {value}" for name, value in values.items()) or "none"


# One memory: why it came back, or the stage where it was lost

_MOST_HITS = 200  # of `top_k`


def explain_memory(
    reader: "Reader",
    embedder: "Embedder",
    asked: "RecallRequest",
    choices: "Choices",
    now: int,
    id_: str,
) -> str:
    """Return why a memory came back, or at which stage it was lost."""
    from serve.recall.request import answer, moment_of
    from store.memories.memory import FORGOTTEN

    with reader.view() as view:
        memory = view.tail.find(id_)
    assert memory is not None  # the log named it, and the view holds all the log holds
    if memory.state == FORGOTTEN:
        return "not returned: it was forgotten; `mnemolog restore` undoes that"
    if lost := list(_explain_filter(memory, asked, now, moment_of(reader, asked.as_of))):
        return f"not returned: {'; '.join(lost)}"
    payload, _ = answer(reader, embedder, asked, choices, now)
    for rank, one in enumerate(payload["hits"], 1):
        if one["id"] == id_:
            return f"returned as number {rank}: {hit_reason(one['why'])}"
    return "not returned: " + _explain_loss(reader, embedder, asked, choices, now, memory, payload)


def _explain_filter(
    memory: "Memory", asked: "RecallRequest", now: int, as_of: int | None
) -> Iterator[str]:
    """Yield what the filter has against a memory."""
    from store.memories.memory import ACTIVE, ARCHIVED, FILTERS

    ended = memory.state != ACTIVE
    if as_of is not None:
        ended = memory.ended_at is not None and memory.ended_at <= as_of
        if memory.created_at > as_of:
            yield f"it dates from {isoformat(memory.created_at)}, after --as-of"
    if asked.active_only and ended and not (asked.cold and memory.state == ARCHIVED):
        by = f" by {memory.superseded_by}" if memory.superseded_by else ""
        since = f" since {isoformat(memory.ended_at)}" if memory.ended_at is not None else ""
        option = "--cold" if memory.state == ARCHIVED else "--include-archived"
        yield f"it is {memory.state}{by}{since}; {option} includes it"
    at = now if as_of is None else as_of
    is_over = memory.expires_at is not None and memory.expires_at <= at
    if asked.active_only and is_over and not asked.cold:
        yield f"it expired {isoformat(memory.expires_at or 0)}; --cold includes it"
    if asked.project is not None and memory.project not in (None, asked.project):
        yield f"it belongs to {memory.project}, not to {asked.project}; try --all-projects"
    for name, field in FILTERS.items():
        wanted, value = getattr(asked, name), getattr(memory, field)
        if wanted and field != "tags" and value not in wanted:
            yield f"it is a {value}, and the query is for {', '.join(wanted)}"
    if missing := [tag for tag in asked.tags if tag not in memory.tags]:
        yield f"it has no tag {', '.join(missing)}"
    if asked.since is not None and memory.created_at < micros(asked.since):
        yield f"it dates from {isoformat(memory.created_at)}, before --since"
    if asked.until is not None and memory.created_at >= micros(asked.until):
        yield f"it dates from {isoformat(memory.created_at)}, not before --until"


def _explain_loss(
    reader: "Reader",
    embedder: "Embedder",
    asked: "RecallRequest",
    choices: "Choices",
    now: int,
    memory: "Memory",
    as_asked: Mapping[str, Any],
) -> str:
    """Return at which stage after the filter a memory was lost that `as_asked` does not hold."""
    from serve.recall.request import answer

    wide = msgspec.structs.replace(asked, top_k=_MOST_HITS, min_confidence=0.0, min_score=0.0)
    payload, _ = answer(reader, embedder, wide, choices, now)
    bar, most = as_asked["min_confidence"], as_asked["why"]["top_k"]
    for rank, one in enumerate(payload["hits"], 1):
        if one["id"] != memory.id:
            continue
        evidence = hit_reason(one["why"])
        if one["confidence"] < bar:
            sure = f"its confidence {one['confidence']:.2f}"
            return f"{sure} is below the threshold {bar:.2f}, lower --min-confidence: {evidence}"
        if one["score"] < asked.min_score:
            score = f"{one['score']:.4f}"
            floor = f"the floor {asked.min_score:.4f}, lower --min-score"
            return f"its score {score} is below {floor}: {evidence}"
        return f"it ranked {rank}, and {most} were requested, raise --top-k: {evidence}"
    for one in payload["hits"]:
        if memory.id in one.get("copies", ()):
            return f"{one['id']} is a duplicate and was returned instead"
        if memory.id in one.get("insights", ()):
            return f"its source {one['id']} was returned instead; --kind insight includes it"
    return (
        "no channel found it: it shares too few words with the query and is not similar to it; "
        "ask in words of its text"
    )
