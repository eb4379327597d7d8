"""What templates share: what they refuse, and how calls and tools are written."""

import json
from collections.abc import Collection, Mapping, Sequence

from tokenriver.errors import InputError
from tokenriver.messages import Message
from tokenriver.types import Json


def known_role(template: str, role: str, roles: Collection[str]) -> None:
    """InputError for a role that the template does not know."""
    if role not in roles:
        known = ", ".join(sorted(roles))
        raise InputError(f"template {template}: role: got {role!r}, expected one of {known}; map or drop it")


def own_parts(template: str, message: Message) -> None:
    """InputError for reasoning or calls of anyone but the assistant: no template has a form for them."""
    if message.role != "assistant" and (message.tool_calls or message.reasoning is not None):
        part = "tool calls" if message.tool_calls else "reasoning"
        raise InputError(
            f"template {template}: got {part} of a message of {message.role}, expected them of the assistant alone; "
            "mend the record"
        )


def call(template: str, given: Json) -> tuple[str, object]:
    """Name and arguments of a call, bare or as {"type": "function", "function": {...}}; an "id" has no form in text."""
    inner = given.get("function", given)
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str) or "arguments" not in inner:
        raise InputError(
            f"template {template}: tool call: got {str(given)[:80]}, expected name and arguments; mend the record"
        )
    known = {"name", "arguments"} | ({"id", "type"} if inner is given else set())
    strange = [*(set(inner) - known), *(set(given) - {"function", "id", "type"} if inner is not given else ())]
    if strange or given.get("type", "function") != "function":
        found = f"the field {sorted(strange)[0]!r}" if strange else f"the type {given['type']!r}"
        raise InputError(f"template {template}: tool call: got {found}, which it has no form for; drop or map it")
    return inner["name"], inner["arguments"]


def as_json(value: object) -> str:
    """JSON as chat templates write it: characters as they are, a space behind each comma and colon."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"tools: got {error}, expected what JSON can hold; mend the record") from error


def tools_by_line(tools: Sequence[Json]) -> str:
    """Each tool as JSON on a line of its own."""
    return "".join(f"\n{as_json(tool)}" for tool in tools)
