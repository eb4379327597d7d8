r"""The turns of minimind: ChatML in which newlines around reasoning and before an answer are the template's own.

Of an answer everything from behind `<|im_start|>assistant\n` to the newline behind <|im_end|> is trained, as minimind
does it by its markers. Its trainer writes an empty block of reasoning into every turn without any, and takes it out of
most conversations again by chance: here `reasoning=""` writes the block and None does not, and the chance is the
caller's. What opens a turn of the model has the empty block.
"""

from collections.abc import Sequence

from tokenriver.errors import InputError
from tokenriver.messages import Message, Piece
from tokenriver.templates import _chatml
from tokenriver.types import Json

ROLES = _chatml.ROLES
_OPEN, _CLOSE = "<think>", "</think>"


def _think(message: Message) -> tuple[str, str]:
    reasoning, content = message.reasoning, message.content
    if reasoning is None and _CLOSE in content:
        reasoning, content = _taken_out(content)
    content = content.lstrip("\n")
    if reasoning is None:
        return "", content
    inner = reasoning.strip("\n")
    return f"{_OPEN}\n{inner}\n{_CLOSE}\n\n", content


def _taken_out(content: str) -> tuple[str, str]:
    """What a content says between <think> and </think>, and behind; what the original would lose is refused."""
    before, _, after = content.partition(_CLOSE)
    ahead, opened, inner = before.rpartition(_OPEN)
    if _CLOSE in after or ahead.strip("\n"):
        raise InputError(
            f"template minimind: got text before {_OPEN} or {_CLOSE} twice in a content, expected one block of "
            "reasoning at its start; give the reasoning as such"
        )
    return inner if opened else before, after


STYLE = _chatml.Style("minimind", _think, newline=True, prompt=f"{_OPEN}\n\n{_CLOSE}\n\n")


def render(
    messages: Sequence[Message], *, tools: Sequence[Json], generate: bool, trained: Sequence[bool]
) -> list[Piece]:
    """The pieces of a conversation (see `messages.Template`); InputError for roles and parts that have no form here."""
    return _chatml.render(STYLE, messages, tools, generate, trained)
