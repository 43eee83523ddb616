"""
The shape of an answer: a msgspec struct as a JSON schema that providers hold a model to, and back.

A model says what it likes, or what a memory it was shown made it say: what it says of secrets and
blocks of ours goes no further than here, neither in a value nor in the words of an error.

What OpenAI takes strictly is less than JSON Schema: every property is required, no others are
allowed, and bounds of texts and lists are not known. msgspec checks those of the answer itself.
https://platform.openai.com/docs/guides/structured-outputs/supported-schemas
"""

import re
from typing import Any, TypeVar

import msgspec

from store.home.errors import ModelError
from store.redaction.redact import redact
from store.text import frame

T = TypeVar("T")

_KNOWN = frozenset(
    "type properties required enum const anyOf items description $ref $defs".split()
) | {"additionalProperties"}
_FENCED = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
_THOUGHT = "</think>"  # some models think aloud before they answer


class NoAnswer(ModelError):
    """A model said something else than what was asked for; the message is for the model too."""


def strict(answer: type[object]) -> dict[str, Any]:
    """Return the schema of a struct with its name, as `response_format` wants it."""
    whole = msgspec.json.schema(answer)
    known = whole.get("$defs", {})
    root = whole
    if "$ref" in whole:  # its root has to be an object, not a reference
        root = known[whole["$ref"].rpartition("/")[2]]
    found = _narrowed(root)
    rest = {name: _narrowed(one) for name, one in known.items() if one is not root}
    if rest:
        found["$defs"] = rest
    return {"name": answer.__name__, "strict": True, "schema": found}


def _narrowed(schema: Any) -> Any:
    """Return a schema with what a strict reader does not know left out."""
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key not in _KNOWN:
            continue
        if key in ("properties", "$defs"):
            found[key] = {name: _narrowed(one) for name, one in value.items()}
        elif key == "anyOf":
            found[key] = [_narrowed(one) for one in value]
        else:
            found[key] = _narrowed(value)
    if "properties" in found:
        found["required"] = list(found["properties"])
        found["additionalProperties"] = False
    return found


def value(text: str, answer: type[T]) -> T:
    """Return what a model said as a value, its texts without secrets and blocks of ours; JSON in a
    fence or among words will do.

    Raise NoAnswer saying what is wrong with it.
    """
    said = text.rpartition(_THOUGHT)[2].strip()
    for candidate in _candidates(said):
        try:
            held = _clean(msgspec.json.decode(candidate))
            return msgspec.convert(held, answer, strict=False)
        except msgspec.ValidationError as error:
            raise NoAnswer(f"the JSON does not fit the schema: {error}") from None
        except RecursionError:
            raise NoAnswer("the JSON is nested too deep") from None
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
    raise NoAnswer("there is no JSON object in it" if said else "it is empty")


def _clean(said: Any) -> Any:
    """Return a JSON value with its texts as they may be kept."""
    if isinstance(said, str):
        return redact(frame.strip(said))
    if isinstance(said, list):
        return [_clean(one) for one in said]
    if isinstance(said, dict):
        return {redact(name): _clean(one) for name, one in said.items()}
    return said


def _candidates(said: str) -> list[str]:
    fenced = _FENCED.search(said)
    opens, ends = said.find("{"), said.rfind("}")
    among = [said[opens : ends + 1]] if 0 <= opens < ends else []
    return [said, *([fenced[1]] if fenced else []), *among]
