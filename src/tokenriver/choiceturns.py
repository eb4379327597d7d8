"""Multiple choice as a conversation: the context is what a user says, each choice what the assistant answers.

The context's ids are those of the user's turn with what opens the answer; a choice's are those of the content alone,
without what ends the turn, as the template writes it: encoded apart, so that a choice is never without ids of its own.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from tokenriver.chat import Chat
from tokenriver.errors import InputError
from tokenriver.messages import SPECIAL, TEXT, Message, Piece, Rendered
from tokenriver.types import Ids, Int64

USER, ASSISTANT = "user", "assistant"
NOT_RENDERABLE = "not-renderable"
PROBE = "a", ["b"]


class Asked(NamedTuple):
    """An example as pieces of conversations."""

    context: Rendered
    choices: list[Rendered]

    @property
    def texts(self) -> list[str]:
        """The texts of all pieces."""
        return [piece.text for part in (self.context, *self.choices) for piece in part.pieces if piece.kind != SPECIAL]

    @property
    def answers(self) -> list[str]:
        """The text of each choice, as the template writes it."""
        return ["".join([piece.text for piece in choice.pieces]) for choice in self.choices]


def check_template(chat: Chat) -> None:
    """InputError for a template whose answers do not begin where its opening of an answer ends, or that needs what the
    tokenizer has not."""
    encode([ask(chat, *PROBE)], chat)


def ask(chat: Chat, context: str, choices: Sequence[str]) -> Asked:
    """An example as the template has it; InputError for texts that it does not write as they are."""
    user = Message(USER, context)
    opened = chat.render([user], generate=True)
    begin = _spelled(opened.pieces)
    return Asked(opened, [_answer(chat, user, choice, begin) for choice in choices])


def encode(asked: Sequence[Asked], chat: Chat) -> tuple[Ids, Int64]:
    """(ids of all pieces of examples, where each ends)."""
    batch = chat.encode([part for one in asked for part in (one.context, *one.choices)])
    return batch.ids.astype(np.uint32, copy=False), np.cumsum(batch.lengths)


def _answer(chat: Chat, user: Message, choice: str, begin: str) -> Rendered:
    """The content of an assistant's turn. Where an opening has an empty block of reasoning, the turn has it too."""
    said = Message(ASSISTANT, choice)
    for message in (said, replace(said, reasoning="")):
        try:
            whole = chat.render([user, message])
        except InputError:
            if message is said:
                raise
            break
        found = _behind(whole.pieces, begin)
        text = "".join([piece.text for piece in found])
        if text and text in choice and text.strip() == choice.strip():
            return Rendered(found, whole.trained)
    raise InputError(
        f"template {chat.name}: got no turn that opens as {begin[-40:]!r} and goes on with the choice {choice[:40]!r}, "
        "expected one; set the template's options, or take one that writes answers as they are behind what opens them"
    )


def _behind(pieces: Sequence[Piece], begin: str) -> list[Piece]:
    """What stands behind pieces that spell a text: the texts of a message up to the next special token; none if no
    pieces spell it."""
    text = ""
    for place, piece in enumerate(pieces):
        if text == begin:
            return list(takewhile(lambda piece: piece.kind == TEXT, pieces[place:]))
        text += _spelled([piece])
    return []


def _spelled(pieces: Sequence[Piece]) -> str:
    """Pieces as a text in which a special token is another than its name."""
    return "".join([f"\0{piece.text}\0" if piece.kind == SPECIAL else piece.text for piece in pieces])
