r"""`<|im_start|>role\n`, the content, `<|im_end|>\n`: ChatML, with tools and reasoning as Qwen 3 has them.

Contents are written as they are. What was thought stands in every turn that has it, the earlier ones too; no system
message is made up; the newline behind <|im_end|> is not trained.
"""

from collections.abc import Sequence

from tokenriver.messages import Message, Piece
from tokenriver.templates import _chatml
from tokenriver.types import Json

ROLES = _chatml.ROLES
VERBATIM = True


def _think(message: Message) -> tuple[str, str]:
    thought = "" if message.reasoning is None else f"<think>\n{message.reasoning}\n</think>\n\n"
    return thought, message.content


STYLE = _chatml.Style("chatml", _think)


def render(
    messages: Sequence[Message], *, tools: Sequence[Json], generate: bool, trained: Sequence[bool]
) -> list[Piece]:
    """The pieces of a conversation (see `messages.Template`); InputError for roles and parts that have no form here."""
    return _chatml.render(STYLE, messages, tools, generate, trained)
