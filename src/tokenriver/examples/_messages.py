"""Entries of a conversation, as records spell them, become messages. A field that has no place in one is refused by
name, or noted where no template renders it; nothing is dropped in silence."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, cast

import orjson

from tokenriver.forms import Talks
from tokenriver.messages import Message
from tokenriver.types import Json

FIELD_MISSING = "field-missing"
NOT_A_STRING = "not-a-string"
UNKNOWN_FIELD = "unknown-field"
UNKNOWN_ROLE = "unknown-role"
EMPTY = "empty-conversation"
TOOL_CALL = "tool-call"
TRAIN_FLAG = "train-flag"
NOT_RENDERED = "field-not-rendered"

_KNOWN = {"role", "content", "reasoning_content", "tool_calls", "train", "weight", "tools"}
_UNRENDERED = {"name", "tool_call_id", "id"}
"""Fields of well-known interfaces that no template shows."""
_SPEAKERS = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "system": "system",
    "tool": "tool",
    "observation": "tool",
}


_ROLE, _CONTENT, _FROM, _VALUE = map(itemgetter, ("role", "content", "from", "value"))


class Refused(Exception):
    """A record that gives no example: `reason`, a word of the balance, and `detail`, the value that is wrong."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def text(record: Json, field: str) -> str:
    """The text of a field that must be there."""
    value = record.get(field)
    if isinstance(value, str):
        return value
    raise Refused(FIELD_MISSING if value is None else NOT_A_STRING, field)


def optional_text(record: Json, field: str) -> str:
    """The text of a field that may be absent, null or empty."""
    value = record.get(field)
    if value is None or isinstance(value, str):
        return value or ""
    raise Refused(NOT_A_STRING, field)


def messages_of(entries: object, note: Callable[[str], None]) -> list[Message]:
    """The messages of a list of {role, content} or of ShareGPT's {from, value}; `note` is told of fields that nothing
    renders."""
    if not isinstance(entries, list):
        raise Refused(FIELD_MISSING if entries is None else "not-a-list", "messages")
    if not entries:
        raise Refused(EMPTY)
    out = []
    for entry in entries:
        # nearly all are of this form, and there are very many
        if type(entry) is dict and len(entry) == 2:
            role, content = entry.get("role"), entry.get("content")
            if type(role) is str and type(content) is str:
                out.append(Message(role, content))
                continue
        out.append(_other(entry, bool(out), note))
    return out


def talks_of(several: Sequence[object]) -> Talks | None:
    """What `messages_of` gives for lists of messages that all have a role and a content and nothing else, without an
    object for each; None if any is another."""
    if set(map(type, several)) != {list}:
        return None
    lists = cast(Sequence[list[Any]], several)
    entries = list(chain.from_iterable(lists))
    sizes = list(map(len, lists))
    if not all(sizes) or set(map(type, entries)) != {dict} or set(map(len, entries)) != {2}:
        return None
    try:
        if "role" in entries[0]:
            roles = tuple(map(_ROLE, entries))
            contents = list(map(_CONTENT, entries))
        else:
            roles = tuple(map(_SPEAKERS.__getitem__, map(_FROM, entries)))
            contents = list(map(_VALUE, entries))
    except (KeyError, TypeError):  # one of them has other fields, or a speaker whom nobody knows
        return None
    texts = set(map(type, roles)) == set(map(type, contents)) == {str}
    return Talks(roles, contents, sizes) if texts else None


def _other(entry: object, later: bool, note: Callable[[str], None]) -> Message:
    if not isinstance(entry, dict):
        raise Refused("not-an-object", "message")
    if later and entry.get("tools"):
        raise Refused(UNKNOWN_FIELD, "tools")
    return _spoken(entry, note) if "from" in entry else _full(entry, note)


def tools_of(value: object) -> Sequence[Json]:
    """A list of tools, or the JSON of one; () for none."""
    if not value:
        return ()
    if isinstance(value, str):
        value = _json(value, "tools") if value.strip() else ()
    if not isinstance(value, list | tuple) or not all(isinstance(tool, dict) for tool in value):
        raise Refused(TOOL_CALL, "tools")
    return value


def _spoken(entry: dict[str, Any], note: Callable[[str], None]) -> Message:
    """An entry of ShareGPT."""
    speaker = text(entry, "from")
    if speaker not in _SPEAKERS:
        raise Refused(UNKNOWN_ROLE, speaker)
    others = {k: v for k, v in entry.items() if k not in ("from", "value")}
    return _full({**others, "role": _SPEAKERS[speaker], "content": text(entry, "value")}, note)


def _full(entry: dict[str, Any], note: Callable[[str], None]) -> Message:
    role = text(entry, "role")
    for name, value in entry.items():
        if value is None or name in _KNOWN:
            continue
        if name not in _UNRENDERED:
            raise Refused(UNKNOWN_FIELD, name)
        note(NOT_RENDERED)
    calls = _calls(entry.get("tool_calls"))
    content = _content(entry.get("content"), bool(calls))
    return Message(role, content, optional_text(entry, "reasoning_content") or None, calls, _flag(entry))


def _content(value: object, calls: bool) -> str:
    """A text, the joined texts of parts, or nothing beside tool calls."""
    if isinstance(value, str):
        return value
    if value is None and calls:
        return ""
    if value is None:
        raise Refused(FIELD_MISSING, "content")
    parts = value if isinstance(value, list) else [None]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in parts]
    if not all(isinstance(part, str) for part in texts):
        raise Refused(NOT_A_STRING, "content")
    return "".join(map(str, texts))


def _calls(value: object) -> Sequence[Json]:
    """Tool calls with "name" and "arguments", an object, out of the forms in which they are written down."""
    if isinstance(value, str) and value.strip():
        value = _json(value, TOOL_CALL)
    if not value:
        return ()
    if not isinstance(value, list):
        raise Refused(TOOL_CALL, "not a list")
    return [_call(call) for call in value]


def _call(call: object) -> Json:
    inner = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        raise Refused(TOOL_CALL, "name")
    arguments = inner.get("arguments")
    if isinstance(arguments, str):
        arguments = _json(arguments, "arguments")
    if not isinstance(arguments, Mapping):
        raise Refused(TOOL_CALL, "arguments")
    return {"name": inner["name"], "arguments": arguments}


def _json(value: str, what: str) -> object:
    try:
        return orjson.loads(value)
    except ValueError as error:
        raise Refused(TOOL_CALL, what) from error


def _flag(entry: dict[str, Any]) -> bool | None:
    """Is the message trained, by its own word: `train`, or a `weight` of 0 or 1."""
    given = [entry[name] for name in ("train", "weight") if entry.get(name) is not None]
    if not given:
        return None
    if len(given) > 1 or given[0] not in (0, 1):
        raise Refused(TRAIN_FLAG, repr(given)[:100])
    return bool(given[0])
