"""Turns between <|im_start|> and <|im_end|>, with tools, calls and reasoning as the Qwen models write them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tokenriver.messages import ANSWER, FIXED, REASONING, SPECIAL, TEXT, Message, Piece
from tokenriver.templates import _parts
from tokenriver.types import Json

ROLES = frozenset({"system", "user", "assistant", "tool"})
START, END = "<|im_start|>", "<|im_end|>"
_START = Piece(START, SPECIAL)
_END = Piece(END, SPECIAL)
_NEWLINE = Piece("\n", FIXED)
_OPENING = Piece("assistant\n", FIXED)

_TOOLS_HEAD = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_TOOLS_TAIL = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
    "</tool_call>"
)


@dataclass(frozen=True, slots=True)
class Style:
    """In what the templates of this family differ."""

    name: str
    think: Callable[[Message], tuple[str, str]]
    """What the assistant thought, in its tags, and what it answered."""
    newline: bool = False
    """Is the newline behind a trained turn trained too?"""
    prompt: str = ""
    """What follows the opening of a turn that the model is to write."""


def render(
    style: Style, messages: Sequence[Message], tools: Sequence[Json], generate: bool, trained: Sequence[bool]
) -> list[Piece]:
    """The pieces of a conversation, see `messages.Template`."""
    out: list[Piece] = []
    start = 0
    if tools:
        own = bool(messages) and messages[0].role == "system"
        listing = _TOOLS_HEAD + _parts.tools_by_line(tools) + _TOOLS_TAIL
        if own:
            _parts.own_parts(style.name, messages[0])
            listing = f"\n\n{listing}"
        content = messages[0].content if own else ""
        if own and trained[0]:
            out += _turn(style, "system", content, True, 0)
            out.insert(len(out) - 2, Piece(listing, FIXED))
        else:
            out += _turn(style, "system", content + listing, False, 0)
        start = int(own)
    for number in range(start, len(messages)):
        message = messages[number]
        _parts.known_role(style.name, message.role, ROLES)
        if message.role == "assistant":
            out += _answer(style, message, number)
            continue
        _parts.own_parts(style.name, message)
        if message.role == "tool":
            out += _result(style, messages, number, trained)
        else:
            out += _turn(style, message.role, message.content, trained[number], number)
    return [*out, _START, Piece(_OPENING.text + style.prompt, FIXED)] if generate else out


def _turn(style: Style, role: str, content: str, trained: bool, number: int) -> tuple[Piece, ...]:
    """A whole turn of anyone but the assistant; one that is not trained is one text."""
    if not trained:
        return _START, Piece(f"{role}\n{content}", TEXT), _END, _NEWLINE
    return _START, Piece(f"{role}\n", FIXED), Piece(content, TEXT, ANSWER, number), *_close(style.newline, number)


def _answer(style: Style, message: Message, number: int) -> tuple[Piece, ...]:
    """A turn of the assistant: what it thought, what it answered, its calls."""
    thought, text = style.think(message)
    for place, given in enumerate(message.tool_calls):
        name, arguments = _parts.call(style.name, given)
        written = arguments if isinstance(arguments, str) else _parts.as_json(arguments)
        gap = "\n" if text or place else ""
        text += f'{gap}<tool_call>\n{{"name": "{name}", "arguments": {written}}}\n</tool_call>'
    answer, closing = Piece(text, TEXT, ANSWER, number), _close(style.newline, number)
    if thought:
        return _START, _OPENING, Piece(thought, TEXT, REASONING, number), answer, *closing
    return _START, _OPENING, answer, *closing


@lru_cache(1000)
def _close(newline: bool, number: int) -> tuple[Piece, Piece]:
    """The end of a turn that may be trained."""
    end = Piece(END, SPECIAL, ANSWER, number)
    return (end, Piece("\n", FIXED, ANSWER, number)) if newline else (end, _NEWLINE)


def _result(style: Style, messages: Sequence[Message], number: int, trained: Sequence[bool]) -> list[Piece]:
    """What a tool gave back: a turn of the user, which results in a row share."""
    first = not number or messages[number - 1].role != "tool"
    last = number + 1 == len(messages) or messages[number + 1].role != "tool"
    before = ("user" if first else "") + "\n<tool_response>\n"
    content, after = messages[number].content, "\n</tool_response>"
    out = [_START] if first else []
    if trained[number]:
        out += [Piece(before, FIXED), Piece(content, TEXT, ANSWER, number), Piece(after, FIXED)]
    else:
        out.append(Piece(before + content + after, TEXT))
    if not last:
        return out
    return [*out, *(_close(style.newline, number) if trained[number] else (_END, _NEWLINE))]
