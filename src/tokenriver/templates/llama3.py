r"""The turns of Llama 3: `<|start_header_id|>role<|end_header_id|>\n\n`, the content, `<|eot_id|>`.

Contents are trimmed, as the published template does it. Calls and their results have the form of Llama 3.1: a call is
one object of JSON without a text beside it, and a result is a turn of `ipython`. A list of tools has no form here, as
3.1 wants a date beside it, and reasoning has none: load the template of the model's own folder for them.
"""

from collections.abc import Sequence

from tokenriver.errors import InputError
from tokenriver.messages import ANSWER, FIXED, SPECIAL, TEXT, Message, Piece
from tokenriver.templates import _parts
from tokenriver.types import Json

ROLES = frozenset({"system", "user", "assistant", "tool"})
END = "<|eot_id|>"
_BEGIN = Piece("<|begin_of_text|>", SPECIAL)
_START, _STOP = Piece("<|start_header_id|>", SPECIAL), Piece("<|end_header_id|>", SPECIAL)
_END = Piece(END, SPECIAL)
_GAP = Piece("\n\n", FIXED)
_NAMES = {role: Piece("ipython" if role == "tool" else role, FIXED) for role in ROLES}


def render(
    messages: Sequence[Message], *, tools: Sequence[Json], generate: bool, trained: Sequence[bool]
) -> list[Piece]:
    """The pieces of a conversation (see `messages.Template`); InputError for roles and parts that have no form here."""
    if tools:
        raise InputError(
            f"template llama3: got {len(tools)} tools, expected none: it has no form for them; load the template of "
            "the model's folder"
        )
    out = [_BEGIN] if messages or generate else []
    for number, message in enumerate(messages):
        _parts.known_role("llama3", message.role, ROLES)
        _parts.own_parts("llama3", message)
        out += [_START, _NAMES[message.role], _STOP]
        content = _called(message) if message.tool_calls else message.content.strip()
        if message.reasoning is not None:
            raise InputError(
                "template llama3: got reasoning, which it has no form for; write it into the content, or load the "
                "template of the model's folder"
            )
        if trained[number] or message.role == "assistant":
            out += [_GAP, Piece(content, TEXT, ANSWER, number), Piece(END, SPECIAL, ANSWER, number)]
        else:
            out += [Piece(f"\n\n{content}", TEXT), _END]
    return [*out, _START, _NAMES["assistant"], _STOP, _GAP] if generate else out


def _called(message: Message) -> str:
    """The one call of a turn, as text."""
    if len(message.tool_calls) > 1 or message.content.strip():
        raise InputError(
            f"template llama3: got {len(message.tool_calls)} tool calls and {len(message.content.strip())} characters "
            "beside them, expected one call alone; split the turn"
        )
    name, arguments = _parts.call("llama3", message.tool_calls[0])
    written = arguments if isinstance(arguments, str) else _parts.as_json(arguments)
    return f'{{"name": "{name}", "parameters": {written}}}'
