"""A conversation as chat templates take it: mappings, with the origin of each text that is said."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenriver.errors import InputError
from tokenriver.messages import Message
from tokenriver.templates import _marked
from tokenriver.templates._marked import Part
from tokenriver.types import Json

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function", "ipython", "observation", "context"})
"""Roles that may become part of the template's own text."""
SET = frozenset({"messages", "tools", "documents", "add_generation_prompt"})
"""Variables that each conversation sets by itself."""
_OWN_ROLES = {role: _marked.own(role) for role in ROLES}
_A_MESSAGE = 200
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")


class Conversation:
    """What a template gets to see. InputError for what it has no form for, told by the names in its text."""

    def __init__(
        self, messages: Sequence[Message], tools: Sequence[Json], names: frozenset[str], given: Mapping[str, object]
    ) -> None:
        if tools and "tools" not in names:
            raise _no_form("tools")
        self._messages, self._tools = messages, tools
        self._shown = [_message(number, message, names) for number, message in enumerate(messages)]
        self._given = given
        # what a template may spend on it grows with its turns and its texts
        self.characters = sum(_A_MESSAGE + len(m.content) + len(m.reasoning or "") for m in messages)
        if tools or any(message.tool_calls for message in messages):
            self.characters += len(self.everything())

    def variables(self, count: int, opened: bool) -> dict[str, object]:
        """The variables of a rendering of the first messages."""
        own = {"messages": self._shown[:count], "tools": list(self._tools) or None, "documents": None}
        return {**self._given, **own, "add_generation_prompt": opened}

    def everything(self) -> str:
        """All that is said anywhere in it."""
        parts = [text for message in self._messages for text in (message.content, message.reasoning or "")]
        parts += _texts([self._tools, *(message.tool_calls for message in self._messages)])
        return "\n".join(parts)

    def check_all_shown(self, parts: Sequence[Part]) -> None:
        """InputError if the text has nothing of a content that is not blank."""
        origins = {part.origin for part in parts}
        if _marked.SAID in origins:
            return  # something has lost its origin: it may be that content
        for number, message in enumerate(self._messages):
            if _marked.content_of(number) not in origins and message.content.strip():
                raise InputError(
                    f"chat template: got nothing of message {number} ({message.role}) in the text, expected all of it; "
                    "map its role or drop it"
                )


def _message(number: int, message: Message, names: frozenset[str]) -> dict[str, Any]:
    if message.role not in ROLES:
        known = ", ".join(sorted(ROLES))
        raise InputError(f"chat template: role: got {message.role!r}, expected one of {known}; map or drop it")
    content = _marked.said(message.content, _marked.content_of(number))
    shown: dict[str, Any] = {"role": _OWN_ROLES[message.role], "content": content}
    if message.reasoning is not None:
        thought = _marked.said(message.reasoning, _marked.reasoning_of(number))
        fields = [name for name in _THOUGHTS if name in names]
        if not fields:
            raise _no_form("reasoning")
        shown |= dict.fromkeys(fields, thought)
    if message.tool_calls:
        if "tool_calls" not in names:
            raise _no_form("tool calls")
        shown["tool_calls"] = [call if "function" in call else _wrapped(call) for call in message.tool_calls]
    return shown


def _wrapped(call: Json) -> dict[str, object]:
    return {"type": "function", "function": dict(call)}


def _no_form(part: str) -> InputError:
    return InputError(f"chat template: got {part}, which it has no form for; write them into the content, or drop them")


def _texts(value: object) -> list[str]:
    """All keys and texts in nested lists and mappings, as they are and as JSON writes them."""
    found: list[str] = []
    waiting: list[object] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found += [one, json.dumps(one, ensure_ascii=False)]
        elif isinstance(one, Mapping):
            waiting += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            waiting += one
    return found
