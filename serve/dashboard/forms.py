"""
Forms: the fields of a page's form, as the values our functions take.

An empty field of a new memory is ignored; for an edited memory it empties the field, and a missing
field is not changed.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import json, structs

from serve import formatting
from serve.reader.filters import Filter, field_filters
from serve.recall.request import RecallRequest
from serve.reports.listing import Listing, Sort, State
from store.home.errors import InvalidInput
from store.home.instants import micros
from store.home.projects import optional_project
from store.log.commands import Draft
from store.log.event_kinds import MEMORY_KINDS, TIERS, TRUSTS, Revised
from store.memories.memory import ACTIVE, Memory

Sent = Mapping[str, str]
T = TypeVar("T")
ANY = "any"
FOUND = 50  # memories that a search finds at most

TEXTS = ("content", "context", "action", "result")
_NUMBERS = ("importance", "progress")
_NEW = (*TEXTS, "id", "kind", "key", "value", "chain", "status", "source", "tier", "project")


# labels of the list's filters
FILTER_LABELS = {
    "kind": "kind",
    "project": "project",
    "trust": "said by",
    "session": "session",
    "tag": "tags",
    "tier": "tier",
    "since": "from",
    "until": "before",
    "pinned": "pinned",
    "state": "state",
}


class ListForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of the list's form as typed. `sort` "": the best first, else the newest.

    With words the memories are recalled; with an order or a state that recall does not support, the
    memories with these words are listed.
    """

    q: str = ""
    kind: str = ""
    state: str = ACTIVE
    project: str = ""
    tag: str = ""
    tier: str = ""
    trust: str = ""
    session: str = ""
    since: str = ""
    until: str = ""
    pinned: str = ""
    sort: str = ""
    after: str = ""

    @property
    def recalls(self) -> bool:
        """True if the memories are recalled, and not listed."""
        return bool(self.q) and not self.sort and self.state in (ACTIVE, ANY)

    def query(self, **changed: str) -> dict[str, str]:
        """Return the fields that are set, for an address, without the cursor."""
        fields: dict[str, str] = msgspec.to_builtins(
            structs.replace(self, **({"after": ""} | changed))
        )
        return fields

    def without(self, name: str) -> "ListForm":
        """Return the form without one filter; a state becomes any state."""
        return structs.replace(self, **{name: ANY if name == "state" else "", "after": ""})

    @property
    def filters(self) -> dict[str, str]:
        """The filters that narrow the list, by name."""
        values = {name: getattr(self, name) for name in FILTER_LABELS}
        return {
            name: value
            for name, value in values.items()
            if value and not (name == "state" and value == ANY)
        }

    def listing(self, now: int) -> Listing:
        """Return the form's listing; raise InvalidInput for wrong values."""
        state: Any = self.state
        return Listing(
            self._filter(now),
            state,
            pinned=True if self.pinned else None,
            words=self.q,
            sort=self.sort or "-created_at",  # type: ignore[arg-type]
        )

    def request(self, now: int) -> RecallRequest:
        """Return the form's recall; hits below the threshold come back too."""
        those = self._filter(now)
        return RecallRequest(
            query=self.q[:2_000],
            project=those.project,
            top_k=FOUND,
            **field_filters(those),
            since=formatting.parse_optional_time(self.since, now),
            until=formatting.parse_optional_time(self.until, now),
            active_only=self.state == ACTIVE,
            min_confidence=0.0,
            touch=False,
        )

    def _filter(self, now: int) -> Filter:
        since = formatting.parse_optional_time(self.since, now)
        until = formatting.parse_optional_time(self.until, now)
        return Filter(
            now=now,
            project=optional_project(self.project),
            kinds=(self.kind,) if self.kind else (),
            tiers=(self.tier,) if self.tier else (),
            trusts=(self.trust,) if self.trust else (),
            sessions=(self.session,) if self.session else (),
            tags=tuple(_parts(self.tag)),
            since=micros(since) if since else None,
            until=micros(until) if until else None,
        )


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "kind": ("", *MEMORY_KINDS),
    "tier": ("", *TIERS),
    "trust": ("", *TRUSTS),
    "state": get_args(State),
    "sort": ("", *get_args(Sort)),
}


def read_list_form(sent: Sent) -> ListForm:
    """Return the form of a query; raise InvalidInput for an unknown choice."""
    names = ListForm.__struct_fields__
    form = ListForm(**{name: text.strip() for name, text in sent.items() if name in names})
    for name, choices in _CHOICES.items():
        value = getattr(form, name)
        if value not in choices:
            choices_text = ", ".join(filter(None, choices))
            raise InvalidInput(f"{name} is one of {choices_text}, not {value!r}")
    return form


def draft(sent: Sent) -> Draft:
    """Return the draft that a form describes; raise InvalidInput naming the error."""
    values: dict[str, Any] = {
        name: _lines(sent[name]) for name in _NEW if sent.get(name, "").strip()
    }
    values |= _numbers(sent) | _ttl(sent)
    if sent.get("value") and not sent.get("key"):
        raise InvalidInput("a value needs a key")
    if sent.get("metadata", "").strip():
        values["metadata"] = _metadata(sent["metadata"])
    if sent.get("created_at"):
        values["created_at"] = formatting.parse_time(sent["created_at"], 0)
    if "content" not in values:
        raise InvalidInput("the text is empty")
    values |= {"tags": tuple(_parts(sent.get("tags", ""))), "pinned": bool(sent.get("pinned"))}
    return convert(values, Draft)


def revision(sent: Sent, memory: Memory) -> Revised:
    """Return a form's revision of a memory: only the fields that differ."""
    values: dict[str, Any] = {}
    for name in TEXTS:
        text = _lines(sent.get(name, getattr(memory, name) or ""))
        if text != _lines(getattr(memory, name) or ""):
            values[name] = text
    if "tags" in sent and (tags := tuple(_parts(sent["tags"]))) != memory.tags:
        values["tags"] = tags
    for name, number in _numbers(sent).items():
        if number != getattr(memory, name):
            values[name] = number
    for name in ("tier", "status"):
        if (text := sent.get(name, "")) and text != getattr(memory, name):
            values[name] = text
    if "metadata" in sent:
        metadata = _metadata(sent["metadata"])
        if metadata != json.decode(memory.metadata):
            values["metadata"] = metadata
    values |= _ttl(sent)
    if not values:
        raise InvalidInput("nothing was changed")
    if reason := sent.get("reason", "").strip():
        values["reason"] = reason[:2_000]
    return convert(values, Revised)


def form_values(memory: Memory) -> dict[str, str]:
    """Return the values of a memory's form before anything is typed."""
    numbers = {name: getattr(memory, name) for name in _NUMBERS}
    return {
        **{name: getattr(memory, name) or "" for name in (*TEXTS, "tier", "status")},
        **{name: "" if number is None else f"{number:g}" for name, number in numbers.items()},
        "tags": ", ".join(memory.tags),
        "metadata": json.format(memory.metadata, indent=2) if memory.metadata != "{}" else "{}",
        "ttl": "",
        "reason": "",
    }


def convert(values: dict[str, Any], to: type[T]) -> T:
    """Return a form's values as a struct; raise InvalidInput where a value does not fit."""
    try:
        return msgspec.convert(values, to)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from error


def _numbers(sent: Sent) -> dict[str, float]:
    numbers = {}
    for name in _NUMBERS:
        if text := sent.get(name, "").strip():
            try:
                numbers[name] = float(text)
            except ValueError as error:
                raise InvalidInput(f"{name} must be a number from 0 to 1, not {text!r}") from error
    return numbers


def _ttl(sent: Sent) -> dict[str, int]:
    text = sent.get("ttl", "").strip()
    return {"ttl_s": formatting.parse_span(text)} if text else {}


def _metadata(text: str) -> dict[str, Any]:
    try:
        value = json.decode(text.strip() or "{}")
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"metadata is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInput("metadata must be a JSON object: {…}")
    return value


def _lines(text: str) -> str:
    """Return a text with plain line ends; a form sends each as CRLF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _parts(text: str) -> list[str]:
    """Return the parts between commas, each once."""
    return list(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
