"""
The results of a recall and the reasons for them, stage by stage, made from its payload alone: the
recall code is not loaded.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from serve.cli import output
from serve.formatting import ANSWER_LABELS, DROPPED_LABELS, hit_reason, passages
from store.log.event_kinds import EPISODE
from store.log.event_log import EventLog
from store.text.excerpt import one_line
from store.text.tokenizer import terms

_NAMED = 3  # copies
_PART_LINES = 3  # of each part of a turn
_MARGIN = 11  # in front of it: the speaker


def passage_lines(hit: Mapping[str, Any], about: frozenset[str]) -> Iterator[str]:
    """Yield the lines of a hit that have most of a question's terms: a note's sentences; of a turn
    the prompt, the commands and their outcomes, and the agent's answer.
    """

    def shared(part: str) -> int:
        return len(about.intersection(terms(part)))

    if hit["kind"] != EPISODE:
        text, limit = output.clean(hit["text"]), output.room(output.LINES, 4)
        [(_, excerpt)] = passages(hit, limit, shared)
        # its beginning is shown in its own lines
        yield from output.block(text if excerpt == one_line(text, limit) else excerpt)
        return
    for who, words in passages(hit, output.room(_PART_LINES, _MARGIN), shared):
        for number, row in enumerate(output.block(words, " " * _MARGIN, _PART_LINES)):
            yield row if number else f"    {who:<{_MARGIN - 4}}{row[_MARGIN:]}"


def stage_lines(log: EventLog, payload: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that describe each stage's work, in the order of the stages."""
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
    for rank, hit in enumerate(payload["hits"], 1):
        id_ = output.short_id(log, hit["id"])
        moved = f", {hit['why']['fused']:.4f} as fused" if why["profile"] != "balanced" else ""
        sure = f"confidence {hit['confidence']:.2f}{', unsure' if hit.get('unsure') else ''}"
        yield f"{rank:3}. {id_}  {sure}  score {hit['score']:.4f}{moved}"
        yield f"     {hit_reason(hit['why'])}"
        yield f"     {output.one_line(hit['text'])}"
        for line in mark_lines(log, hit):
            yield f"     {line}"
    if hint := payload.get("hint"):
        yield f"next        {hint}"
    for title, dropped in (
        (f"closest below the threshold of {bar:.2f}; lower --min-confidence", "nearest_below_bar"),
        ("next results, with a larger --top-k", "nearest_over_top_k"),
    ):
        if why[dropped]:
            yield title
        for hit in why[dropped]:
            sure, text = f"{hit['confidence']:.2f}", output.one_line(hit["text"], 50)
            yield f"     {output.short_id(log, hit['id'])}  confidence {sure}  {text}"


def mark_lines(log: EventLog, hit: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each relation of a hit to other memories."""
    if newer := hit.get("conflicts_with"):
        yield f"older: {output.short_id(log, newer)} has another value"
    if newer := hit.get("replaced_by"):
        id_, text = output.short_id(log, newer["id"]), output.one_line(newer["text"], 80)
        over = hit.get("outdated")
        verb = f"“{output.one_line(over, 50)}” holds" if over else "holds"
        yield f"{verb} until {hit['until'][:10]}, then: {text} ({id_}; not so? restore the older)"
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
    """Yield the parts of the analysis of a question."""
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


def _numbers(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{output.clean(name)} {value}" for name, value in values.items()) or "none"
