"""
What `why` says of a recall and of its hits: the stages in words. It loads nothing of what recalls.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from serve.cli import output
from serve.recall.explanation import SPOKEN, WANTS
from store.log import EventLog

_NAMED = 3  # copies


def stages(log: EventLog, payload: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that tell what each stage did, in the order of the stages."""
    why = payload["why"]
    for notice in payload.get("notices", ()):
        yield f"degraded    {notice}"
    if read := ", ".join(_read(why["analysis"])):
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
    yield f"threshold   {why['min_confidence']:.2f} of confidence"
    if why["min_score"]:
        yield f"floor       {why['min_score']:.4f} of score"
    yield f"dropped     {_numbers(why['dropped'])}"
    yield f"returned    {len(payload['hits'])}"
    for rank, one in enumerate(payload["hits"], 1):
        id_ = output.short_id(log, one["id"])
        moved = f", {one['why']['fused']:.4f} as fused" if why["profile"] != "balanced" else ""
        sure = f"confidence {one['confidence']:.2f}"
        yield f"{rank:3}. {id_}  {sure}  score {one['score']:.4f}{moved}"
        yield f"     {hit(one['why'])}"
        yield f"     {output.one_line(one['text'])}"
        for line in marks(log, one):
            yield f"     {line}"
    bar, top_k = (
        f"closest below the threshold of {why['min_confidence']:.2f}",
        "next results, with a larger top_k",
    )
    for title, dropped in ((bar, "nearest_below_bar"), (top_k, "nearest_over_top_k")):
        if why[dropped]:
            yield title
        for one in why[dropped]:
            sure, text = f"{one['confidence']:.2f}", output.one_line(one["text"], 50)
            yield f"     {output.short_id(log, one['id'])}  confidence {sure}  {text}"


def marks(log: EventLog, hit: Mapping[str, Any]) -> Iterator[str]:
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


def _read(analysis: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was read from the question itself."""
    if language := analysis.get("language"):
        yield f"language {language}"
    if wanted := analysis.get("answer_type"):
        yield f"wants {WANTS[wanted]}"
    if mode := analysis.get("task_mode"):
        yield f"mode {mode}"
    if identifiers := analysis.get("identifiers"):
        yield "identifiers " + " ".join(map(output.clean, identifiers))
    if when := analysis.get("interval"):
        yield f"{output.clean(when['words'])} is {when['since'][:10]} until {when['until'][:10]}"


def hit(why: Mapping[str, Any]) -> str:
    """Return one hit's evidence as a line: its ranks, what adds up to its score, how sure it is."""
    parts = [", ".join(f"{name} #{found['rank']}" for name, found in why["channels"].items())]
    adds = sorted(why["adds"].items(), key=lambda one: -one[1])
    parts.append(" + ".join(f"{SPOKEN.get(name, name)} {value:.2f}" for name, value in adds))
    parts.append(
        ", ".join(
            f"{name} {value:.2f}{_faded(why, name)}"
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


def _faded(why: Mapping[str, Any], signal: str) -> str:
    """Return what an importance was before it faded, where it did."""
    told = why["importance_told"]
    is_faded = signal == "importance" and round(told, 2) > round(why["signals"][signal], 2)
    return f" (of {told:.2f}, faded)" if is_faded else ""


def _numbers(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{output.clean(name)} {value}" for name, value in values.items()) or "none"
