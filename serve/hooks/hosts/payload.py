"""
What of a payload is read: fields of the wrong type count as missing, long texts are cut, and what
our own memory or the host's machinery put into a text is taken out of it.
"""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from serve.hooks.event import MAX_PROMPT, MAX_SAID
from store.agents.json_fields import LONGEST_ID, join_surrogates, text
from store.home.errors import InvalidInput
from store.importers.transcript_turn import typed_text
from store.text import frame

_LONGEST_PATH = 4_096
_READ = 4  # times as much as is kept is looked at: what is taken out makes place for more

_payload = msgspec.json.Decoder(dict[str, Any])


def decoded(raw: bytes) -> dict[str, Any]:
    """Return the object that a host sent; raise InvalidInput or msgspec.DecodeError.

    Hosts cut texts between the two halves of an emoji; such a half becomes U+FFFD.
    """
    try:
        return _payload.decode(raw)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the event is not UTF-8: {error}") from error
    except RecursionError as error:
        raise InvalidInput("the event is nested too deeply") from error
    except msgspec.DecodeError:
        whole = join_surrogates(raw)
        if whole == raw:
            raise
        return decoded(whole)


def required(payload: Mapping[str, Any], *names: str) -> str:
    """Return the first of some fields that is a text; raise InvalidInput naming them."""
    if found := text(payload, *names, most=LONGEST_ID):
        return found
    raise InvalidInput(f"a hook's event needs {' or '.join(names)}: send the host's own JSON")


def folder(value: object) -> str | None:
    """Return a working directory as it was named; None where it cannot be one."""
    if not isinstance(value, str) or len(value) > _LONGEST_PATH or "\x00" in value:
        return None
    return value if os.path.isabs(value) else None  # else it would be taken from where we stand


def prompt(value: str) -> str:
    """Return what a person wrote of a prompt, cut; nothing where a machine wrote all of it."""
    return typed_text(frame.strip(value[: MAX_PROMPT * _READ]))[:MAX_PROMPT]


def said(value: str) -> str:
    """Return what an agent said, without blocks of ours, cut."""
    return frame.strip(value[: MAX_SAID * _READ])[:MAX_SAID]
