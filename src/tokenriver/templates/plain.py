r"""Roles spelled as text, for a tokenizer without chat tokens: `<|user|>\n`, the content, the end-of-text id.

The rendering of the HDF5 project's fine-tuning: header, content and end are encoded each on their own, so that a
rendered text encoded in one go gives other ids.
"""

from collections.abc import Sequence

from tokenriver.errors import InputError
from tokenriver.messages import ANSWER, EOS, FIXED, SPECIAL, TEXT, Message, Piece
from tokenriver.types import Json

ROLES = frozenset({"system", "user", "assistant"})
VERBATIM = True


def render(
    messages: Sequence[Message], *, tools: Sequence[Json], generate: bool, trained: Sequence[bool]
) -> list[Piece]:
    """The pieces of a conversation (see `messages.Template`); InputError for roles and parts that have no form here."""
    if tools:
        raise InputError(f"template plain: got {len(tools)} tools, expected none: it has no form for them; drop them")
    out = []
    for number, message in enumerate(messages):
        if message.role not in ROLES:
            known = ", ".join(sorted(ROLES))
            raise InputError(f"template plain: role: got {message.role!r}, expected one of {known}; map or drop it")
        if message.tool_calls or message.reasoning:
            part = "tool calls" if message.tool_calls else "reasoning"
            raise InputError(f"template plain: got {part}, which it has no form for; write them into the content")
        out += [
            Piece(f"<|{message.role}|>\n", FIXED),
            Piece(message.content, TEXT, ANSWER, number),
            Piece(EOS, SPECIAL, ANSWER, number),
        ]
    return [*out, Piece("<|assistant|>\n", FIXED)] if generate else out
