"""A conversation, and what a chat template makes of it: pieces of text and of special tokens, in order.

Ids and loss mask are made of the pieces, one by one, so that the mask is right by construction: nobody looks for the
answer in a rendered text, and what a message says can never become a special token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tokenriver.types import Json

TEXT, FIXED, SPECIAL = 0, 1, 2
"""What a piece is: text of a message; the template's own text, which recurs; a special token by its content."""
CONTEXT, ANSWER, REASONING = 0, 1, 2
"""What it is to the loss: never trained; trained if its message is; trained if its message and reasoning are."""
EOS, BOS = "eos", "bos"
"""A special piece of one of these texts is the tokenizer's own id of that role, whatever it looks like."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    """system, user, assistant or tool, or what else a template knows."""
    content: str
    reasoning: str | None = None
    """What the assistant thought before it answered."""
    tool_calls: Sequence[Json] = ()
    """Calls of an assistant, each with "name" and "arguments" (an object), bare or below "function"."""
    train: bool | None = None
    """Is the turn trained? None: by its role."""


class Piece(NamedTuple):
    """A stretch of a rendered conversation that is encoded on its own."""

    text: str
    kind: int
    """TEXT, FIXED or SPECIAL."""
    loss: int = CONTEXT
    """CONTEXT, ANSWER or REASONING."""
    message: int = -1
    """Which message it is part of; -1: none, and CONTEXT."""


class Rendered(NamedTuple):
    """A conversation made ready to be encoded."""

    pieces: list[Piece]
    trained: Sequence[bool]
    """Of each message: is it trained?"""


class Template(Protocol):
    """What a module of templates/ offers.

    It may say VERBATIM = True: each content is written as it is, within one piece, and of messages with a role and a
    content alone all else is determined by the roles and by what is trained. Such conversations are rendered faster."""

    @property
    def ROLES(self) -> frozenset[str] | None:
        """The roles that it knows; None if it cannot tell before it renders."""

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Json], generate: bool, trained: Sequence[bool]
    ) -> list[Piece]:
        """The pieces of a conversation; with `generate`, then what opens the assistant's next turn. Raises InputError
        for a conversation that the template does not know.

        Of a message that is trained the content, its calls and the token that ends its turn are ANSWER, what was
        thought is REASONING, and the rest is CONTEXT. What opens an assistant's turn is a piece of its own, trained or
        not, as it is when a model answers; so is what opens another message's turn if that is trained. All other text
        between two special tokens is one piece."""
