"""
Descriptions of each projection, its tables and their columns for Dagster's pages.

A column is looked up by its table and name, then by its name alone: equal names mean the same in
most tables. Times are microseconds UTC; a document is a row of `memories`.
"""

from collections.abc import Mapping

import dagster as dg

from store.snapshots.projection import Projection

COLUMNS = "dagster/column_schema"  # Dagster's own name: the page shows it by itself

PROJECTIONS: Mapping[str, str] = {
    "memories": "What each memory says now: the log, folded event by event. Every other projection "
    "that speaks of a memory names its row here, the *document*.",
    "postings": "The index that recall searches words with (BM25): which memories hold a term, and "
    "how much each gains by it.",
    "sessions": "Who said what after whom: the order of a session's memories, their speakers, and "
    "an index of whole sessions.",
    "vectors": "A vector for the text of each memory, to find by meaning. A text is embedded once; "
    "what the model did not answer is asked again by the next build.",
    "entities": "The names in the memories (people, services, files), where they stand, and which "
    "are named together.",
    "duplicates": "Memories that repeat an earlier one, or give another value for the same thing. "
    "Nothing is hidden by a link; the job `consolidate` proposes what to merge.",
    "facts": "Values of entities and how long each held: a keyed memory, or one that a job read a "
    "fact in.",
    "state": "Which sentence of a memory replaces, ends or repeats an earlier one. Recall "
    "marks what is over; nothing is hidden from history.",
    "goals": "The active goals, open ones first, and the milestones of each chain.",
    "usage": "How often each memory was recalled, rated and judged. A recall counts from the next "
    "build on.",
    "lessons": "How often each lesson was shown and followed, how those turns came out, and the "
    "drafts of lessons that wait for you.",
    "statement_weights": "How likely each statement of yours lasts, and in how many sessions you "
    "said it again.",
    "insights": "What jobs made, and the memories it was made of.",
    "routes": "What the router has learned of each action, the policies it served, and the newest "
    "recalls it learns from.",
}

# by projection and table, or by the table's name alone
TABLES: Mapping[str, str] = {
    "memories": "every field of every memory",
    "columns": "the numbers that filters and weights are made of, once more",
    "projects": "the projects, in the order of their first memories",
    "ids": "where to find a memory by its id",
    "keys": "where to find a memory by its project and key",
    "episodes": "where to find the episodes of a session",
    "replaced": "where to find what a memory replaced",
    "made_of": "where to find what a job made of a memory",
    "memories.edges": "links between memories that somebody drew",
    "terms": "the indexed terms, over all segments",
    "words": "the words of each segment",
    "postings": "by word, the documents that hold it",
    "wide": "the words that every sixth document holds",
    "spread": "of each wide word, what every document gains by it",
    "documents": "each document of the index",
    "trigrams": "runs of three letters, to find words that are written alike",
    "segments": "how many rows of each table a segment has",
    "statistics": "what the scores of the whole index rest on",
    "turns": "the place of each memory in its session",
    "read": "what each text was when it was read, so that only changed ones are read again",
    "speakers": "the speakers' names",
    "members": "the memories of each session, one session after the other",
    "starts": "where each session begins in `members`, and where the last ends",
    "rows": "the vectors in half precision",
    "codes": "the same vectors in bytes, which the server scans",
    "signs": "512 bits of each vector, which tell a scan of many where to look",
    "missing": "the texts that still need a vector",
    "calibration": "what a cosine of the model is worth",
    "found": "every name as a text has it",
    "entities": "the entities, by number",
    "mentions": "which memory names which entity",
    "entities.edges": "entities that are named together",
    "aliases": "every way to write an entity, sorted",
    "shared": "ways to write that several entities share",
    "duplicates": "the links from a memory to the one it repeats or corrects",
    "duplicates.statements": "what each text says, as numbers that are equal for equal statements",
    "facts": "the facts",
    "claims": "the sentences that say how things are, by project, in their order",
    "links": "what a sentence is to an earlier one",
    "restored": "when `mnemolog restore` last said that a memory holds",
    "goals": "the active goals",
    "milestones": "what was reached",
    "usage": "the memories that were ever recalled or rated",
    "receipts": "the newest recalls and what they brought",
    "lessons": "the lessons that were ever shown",
    "efforts": "how tests, builds and deployments stood after turns that a lesson was shown in",
    "drafts": "lessons that wait for a yes or no",
    "statement_weights": "the statements that hold",
    "insights": "what jobs made",
    "routes": "the actions, with what the kept recalls add",
    "policies": "the policies that were served",
    "recalls": "the newest recalls, to which a rating may still come",
    "settled": "the same as `routes`, of the recalls before those",
}

_DOCUMENT = "The memory's row in `memories`."
_PLACE = "SHA-256 of what is looked up, its first 64 bits."

# by table and column, or by the column's name alone
_COLUMNS: Mapping[str, str] = {
    "id": "ID of the memory.",
    "seq": "Number of its last event in the log.",
    "kind": "Its kind: decision, lesson, fact, goal and so on.",
    "state": "active, archived, superseded, stale or forgotten.",
    "content": "The text.",
    "context": "What was going on.",
    "action": "What was done.",
    "result": "What came of it.",
    "tags": "Its tags.",
    "project": "The project it belongs to; none: it holds everywhere.",
    "session": "The agent's session that it was recorded in.",
    "agent": "The agent that recorded it.",
    "trust": "Whose word it is: user, agent, tool or web. Only a user's may instruct.",
    "author": "Who wrote the text: typed, quoted, program, agent, tool, web or repository.",
    "source": "Where it came from: an importer, a file, an address.",
    "created_by": "The person who said it.",
    "importance": "How much it matters, 0 to 1, before anything fades.",
    "score": "How good it was said to be when it was recorded, 0 to 1; else 0.5.",
    "pinned": "Whether it neither fades nor is archived.",
    "tier": "What it is kept as: working, episodic or semantic.",
    "parent_id": "The memory it is a part of.",
    "source_ids": "The memories it was made of.",
    "insight_type": "What sort of insight a job found.",
    "job": "The job that made it; none: a person or an agent did.",
    "superseded_by": "The memory that took its place.",
    "key": "What it gives the value of: deploy.region.",
    "value": "The value of its key or relation.",
    "chain": "The chain of milestones it belongs to.",
    "status": "Of a goal: open, done, dropped or blocked.",
    "progress": "Of a goal: 0 to 1.",
    "created_at": "When it became true.",
    "updated_at": "When it last changed.",
    "expires_at": "When it runs out by its ttl.",
    "ended_at": "When it stopped being active.",
    "metadata": "What else was recorded with it, as JSON.",
    "text_hash": "Hash of the text that is embedded.",
    "columns.kind": "Code of its kind.",
    "columns.state": "Code of its state.",
    "columns.tier": "Code of its tier.",
    "columns.trust": "Code of its trust.",
    "columns.pinned": "1 if it is pinned, else 0.",
    "columns.project": "Row in `projects`; -1 for none.",
    "projects.name": "The project's name.",
    "document": _DOCUMENT,
    "hash": _PLACE,
    "terms.hash": "Hash of the term.",
    "words.hash": "Hash of the word.",
    "edges.source": "The memory or entity that the edge starts from.",
    "target": "The other end of the edge.",
    "relation": "How the two are related, or what is said of the entity.",
    "word": "The word as it is indexed.",
    "entities.offset": "Where its rows begin in `mentions`.",
    "offset": "Where its rows begin in the table that lists them.",
    "words.trigrams": "How many different runs of three letters it has; 0: similar to no other.",
    "segments.trigrams": "Rows of `trigrams`.",
    "segments.words": "Rows of `words`.",
    "segments.postings": "Rows of `postings`.",
    "segments.wide": "Rows of `wide`.",
    "segments.spread": "Rows of `spread`.",
    "segments.documents": "Rows of `documents`.",
    "documents": "How many documents hold it.",
    "statistics.documents": "How many documents are indexed.",
    "average_length": "Terms of a document, on average.",
    "average_idf": "The idf of a term, on average.",
    "sample_coverage": "The estimated share of words in a new text that the index knows.",
    "idf": "How much rarer than usual the term is: its weight in a score.",
    "impact": "What the document gains by the word, before its idf.",
    "count": "How often the document holds the word.",
    "term": "The place of a word among those of its segment.",
    "length": "Terms it has; -1: not indexed.",
    "fingerprint": "Changes when the text does.",
    "trigram": "Three letters, 21 bits each.",
    "turns.session": "Number of the session; -1 for none.",
    "before": "The document said before it, by another speaker; -1 for none.",
    "after": "The document said after it, by another speaker; -1 for none.",
    "speaker": "Row in `speakers`; -1 for none.",
    "asks": "1 if it asks something, else 0.",
    "dated": "1 if it names a time, else 0.",
    "personal": "1 if its author speaks of himself or herself, else 0.",
    "rule": "1 if it reads like a rule, else 0.",
    "speakers.name": "The speaker's name.",
    "row": _DOCUMENT,
    "start": "Where the session begins.",
    "half": "The vector, of length 1; zeros: there is none.",
    "vector": "The vector in bytes, times its scale.",
    "scale": "What the bytes are multiplied by.",
    "unrelated": "The cosine that counts as nothing in common.",
    "related": "The cosine of two texts that say alike, on average.",
    "stretch": "How much wider the range up to related is made, since unrelated pairs scatter.",
    "knows_meaning": "Whether the model knows more than words.",
    "found.kind": "What sort of entity it may be.",
    "entities.kind": "What sort of entity: person, service, file and so on.",
    "name": "Its name.",
    "alias": "A way to write it.",
    "mark": "Changes when the text does.",
    "found.name": "The name it stands for.",
    "entity": "Number of the entity.",
    "facts.entity": "What the fact is about.",
    "aliases": "Every way in which it is written.",
    "entities.documents": "How many memories name it.",
    "weight": "How strongly the two belong together.",
    "units": "The weight, counted in whole units so that sums stay exact.",
    "shared.entities": "Which entities are written so.",
    "of": "The document it repeats or corrects.",
    "duplicates.kind": "Whether it says the same, or gives another value (update).",
    "likeness": "The share of their words that both have.",
    "was": "The value before.",
    "becomes": "The value since.",
    "says": "Equal for texts that say the same.",
    "frame": "Equal for texts that differ in their values only.",
    "is_relative": '1 if its words mean another day when said on another ("yesterday").',
    "valid_from": "When the value began to hold.",
    "valid_to": "When it stopped; the largest number while it holds.",
    "is_singleton": "Whether the relation has one value at a time, so that a new one ends the old.",
    "claims.id": "ID of the memory it is in.",
    "claims.text": "The sentence.",
    "claims.terms": "Numbers of the words it is about.",
    "is_note": "Whether it was recorded, not typed in a session.",
    "is_own": "Whether its user said it; what was only passed on may be over, and ends nothing.",
    "older": "The row in `claims` of what may be over.",
    "newer": "The row in `claims` of what came after.",
    "links.relation": "1 replaces, 2 ends, 4 repeats, 5 rests on what is over.",
    "probability": "How likely that is.",
    "is_void": "Whether the older was said again since, and so holds.",
    "restored.id": "ID of the memory.",
    "position": "Its place in its chain, from 0.",
    "lasting": "How likely the statement holds beyond its prompt.",
    "restated": "In how many other sessions you said the same.",
    "routine": "In how many other sessions you said something of the same form about other things.",
    "recalled": "How often it was recalled.",
    "last_recalled_at": "When it was last recalled; 0 for never.",
    "ratings": "How often it was rated.",
    "verdicts": "The sum of the ratings, in thousandths.",
    "judged": "How often a job judged it by what was done afterwards.",
    "judgments": "The sum of those judgments, in thousandths.",
    "receipts.id": "ID of the recall.",
    "hits": "The memories it brought, the best first.",
    "surfaced": "How often it was shown.",
    "followed": "How often it was followed.",
    "ignored": "How often it was shown and ignored.",
    "not_applicable": "How often it did not apply.",
    "before_tool": "How often it was shown before a tool.",
    "in_vain": "How often it was shown before a tool and did not apply.",
    "good_followed": "Turns that followed it and came out well.",
    "bad_followed": "Turns that followed it and came out badly.",
    "good_ignored": "Turns that ignored it and came out well.",
    "bad_ignored": "Turns that ignored it and came out badly.",
    "last_surfaced_at": "When it was last shown; 0 for never.",
    "effort": "What stood well or badly: test, build, lint, deploy and so on.",
    "drafts.id": "ID of the proposal.",
    "at": "When it happened.",
    "because": "Why it was proposed.",
    "draft": "The memory that a yes records, as JSON.",
    "sources": "The documents it was made of.",
    "routes.state": "What the asker is at: debug, review, plan and so on.",
    "settled.state": "What the asker is at: debug, review, plan and so on.",
    "recalls.state": "What the asker is at: debug, review, plan and so on.",
    "level": "What is chosen: the search, the model, the context, whether to speak unasked.",
    "routes.action": "The choice at that level.",
    "settled.action": "The choice at that level.",
    "recalls": "How many recalls were made so.",
    "rated": "How many of them were rated or judged.",
    "q": "The reward expected of the action, -1 to 1.",
    "policies.id": "ID of the policy.",
    "policy": "The policy as it was adopted, as JSON.",
    "policies.recalls": "How many recalls its figures rest on.",
    "policies.value": "The reward estimated for it.",
    "served": "The reward estimated for the policy before it.",
    "low": "The lower end of the 95 % interval of the estimated gain.",
    "recalls.id": "ID of the recall.",
    "search": "The search that was chosen; none: none was.",
    "llm": "The model that was chosen; none: none was.",
    "recalls.context": "The context that was chosen; none: none was.",
    "proactivity": "Whether to speak unasked; none: that was not chosen.",
    "propensity": "How likely that choice was.",
    "tried": "The level at which it tried something else.",
    "brought": "How many memories it brought.",
    "recalls.verdicts": "The sum of its ratings.",
    "of_hits": "Ratings of the memories it brought.",
    "verdicts_of_hits": "The sum of those ratings.",
    "recalls.judged": "What a job judged of it; none: it did not.",
}


def column_schemas(projection: Projection) -> Mapping[str, dg.TableSchema]:
    """Return the columns of a projection's tables, the first one where Dagster looks for it."""
    names = [COLUMNS, *(f"columns of {name}" for name in [*projection.schemas][1:])]
    return {
        name: dg.TableSchema(
            [
                dg.TableColumn(field.name, str(field.type), _describe(table, field.name))
                for field in schema
            ]
        )
        for name, (table, schema) in zip(names, projection.schemas.items(), strict=True)
    }


def _describe(table: str, column: str) -> str | None:
    if table == "signs":
        first = 64 * int(column.removeprefix("word"))
        return f"Bits {first + 1} to {first + 64}."
    return _COLUMNS.get(f"{table}.{column}", _COLUMNS.get(column))


def describe(projection: Projection) -> str:
    """Return a projection's purpose, inputs and tables as Markdown."""
    inputs = ("event_log" if name == "log" else name for name in projection.inputs)
    made_from = " and ".join(f"`{name}`" for name in inputs)
    tables = (
        f"- `{name}`: {TABLES.get(f'{projection.name}.{name}') or TABLES[name]}"
        for name in projection.schemas
    )
    return "\n".join(
        [PROJECTIONS[projection.name], "", f"Built from {made_from}. Its tables:", "", *tables]
    )
