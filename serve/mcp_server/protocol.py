"""
The wire of MCP: JSON-RPC messages, parsed and validated in both eras, independent of the methods.

Until 2025-11-25 a client sends `initialize` once. From 2026-07-28 on no state is kept between two
requests: each carries its version, its client's name and capabilities in `params._meta`, and
repeats version, method and name in headers, which must agree.
https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")  # by `initialize`, newest first
VERSIONS = (MODERN, *LEGACY)

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32601, -32602, -32603
LEGACY_NOT_FOUND = -32002  # of a resource
OUT_OF_SCOPE = -32003  # our own: the specification leaves -32000 to -32019 to servers
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022

META = "io.modelcontextprotocol/"
_VERSION, _CLIENT, _CAPABILITIES = (
    META + name for name in ("protocolVersion", "clientInfo", "clientCapabilities")
)
# the target of a request, which the header Mcp-Name repeats
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

MAX_DEPTH = 64  # of a message: code that walks it later must not overflow the stack
_LARGEST_ID = 2**53  # beyond, a client in JavaScript would not know its own id again
_BASE64 = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)

Params = Mapping[str, Any]
Header = Callable[[str], str | None]
Id = str | int
_any = msgspec.json.Decoder()


class RpcError(Exception):
    """An answer that is a JSON-RPC error; not a defect, nor a tool's failure."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Message(msgspec.Struct, frozen=True):
    """A request; without an id a notification; without a method a client's response."""

    id: Id | None
    method: str | None
    params: Params
    whole: Params


class Caller(msgspec.Struct, frozen=True):
    """The sender of a message and its era. `name` is the client's, if sent with the request."""

    is_modern: bool
    name: str | None = None
    capabilities: Params = {}


def decode_message(body: bytes) -> object:
    """Return the JSON of a body; raise RpcError."""
    try:
        value: object = _any.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RpcError(PARSE_ERROR, f"invalid JSON: {error}") from error
    except RecursionError as error:
        raise RpcError(INVALID_REQUEST, "the message is nested too deeply") from error
    if _is_deeper(value, MAX_DEPTH):
        raise RpcError(INVALID_REQUEST, f"the message is nested more than {MAX_DEPTH} deep")
    return value


def id_of(value: object) -> Id | None:
    """Return the id to answer under; None if the message has no valid id."""
    id_ = value.get("id") if isinstance(value, dict) else None
    return id_ if _is_id(id_) else None


def read(value: object) -> Message:
    """Return the message in a body; raise RpcError if it is not a message."""
    if isinstance(value, list):
        raise RpcError(INVALID_REQUEST, "batches are not supported: send one message at a time")
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'a message is an object with `"jsonrpc": "2.0"`')
    if "id" in value and not _is_id(value["id"]):
        raise RpcError(INVALID_REQUEST, "an id is a string or a whole number")
    method = value.get("method")
    if method is None and "id" in value and ("result" in value or "error" in value):
        return Message(value["id"], None, {}, value)
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "the message has no method")
    params = value.get("params", {})
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "`params` is an object")
    return Message(value.get("id"), method, params, value)


def caller(message: Message, header: Header) -> Caller:
    """Return the sender of a message after checking its protocol version; raise RpcError.

    `header` returns a header's value by its name, in any case.
    """
    text = header("MCP-Protocol-Version")
    meta = message.params.get("_meta", {})
    is_told = isinstance(meta, dict) and _VERSION in meta
    if is_told or text == MODERN:
        return _modern(message, meta, header)
    if text is not None and text not in LEGACY:
        raise _version_error(text)
    if not isinstance(meta, dict):
        raise RpcError(INVALID_PARAMS, "`_meta` is an object")
    return Caller(is_modern=False)


def _modern(message: Message, meta: object, header: Header) -> Caller:
    if not isinstance(meta, dict):
        raise RpcError(INVALID_PARAMS, "`_meta` is an object")
    if message.id is None:  # a notification need not name its sender
        return Caller(is_modern=True)
    if missing := [name for name in (_VERSION, _CAPABILITIES) if name not in meta]:
        raise RpcError(INVALID_PARAMS, f"`params._meta` lacks {', '.join(missing)}")
    _check_headers(message, meta[_VERSION], header)
    if meta[_VERSION] != MODERN:
        raise _version_error(meta[_VERSION])
    capabilities, client = meta[_CAPABILITIES], meta.get(_CLIENT)
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f"`{_CAPABILITIES}` is an object")
    return Caller(True, client_name(client), capabilities)


def client_name(client: object) -> str | None:
    """Return the name in a `clientInfo`, if it has one short enough to keep."""
    name = client.get("name") if isinstance(client, dict) else None
    return name if isinstance(name, str) and 0 < len(name) <= 200 else None


def _check_headers(message: Message, version: object, header: Header) -> None:
    named_by = _NAMED_BY.get(message.method or "")
    named = message.params.get(named_by) if named_by else None
    wanted = {"MCP-Protocol-Version": version, "Mcp-Method": message.method}
    if named is not None:
        wanted["Mcp-Name"] = named
    for name, value in wanted.items():
        if _plain(header(name)) != value:
            raise RpcError(HEADER_MISMATCH, f"the header {name} does not match the body")


def _plain(value: str | None) -> str | None:
    """Return a header's value; None if it is missing or its base64 is not canonical.

    Python's decoder skips characters that are not base64, so that two values would read as one.
    """
    if value is None or (match := _BASE64.fullmatch(value.strip(" \t"))) is None:
        return value if value is None else value.strip(" \t")
    try:
        plain = base64.b64decode(match[1], validate=True)
        return plain.decode() if base64.b64encode(plain).decode() == match[1] else None
    except (binascii.Error, ValueError):
        return None


def _version_error(version: object) -> RpcError:
    if not isinstance(version, str):
        return RpcError(INVALID_PARAMS, f"`{_VERSION}` is a string")
    data = {"supported": list(VERSIONS), "requested": version[:100]}
    return RpcError(UNSUPPORTED_VERSION, "this version of MCP is not supported", data)


def _is_id(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= _LARGEST_ID
    return isinstance(value, str) and len(value) <= 1_000


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in inner)


def text_of(params: Params, name: str) -> str:
    """Return a parameter that must be a string; raise RpcError."""
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"`{name}` is missing or not a string")
    return value


def object_of(params: Params, name: str) -> Params:
    """Return a parameter that must be an object, {} if it is missing; raise RpcError."""
    value = params.get(name)
    if value is not None and not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, f"`{name}` is not an object")
    return value or {}
