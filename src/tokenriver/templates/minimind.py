r"""The turns of minimind: ChatML in which newlines around reasoning and before an answer are the template's own.

Of an answer everything from behind `<|im_start|>assistant\n` to the newline behind <|im_end|> is trained, as minimind
does it by its markers. Its trainer writes an empty block of reasoning into every turn without any, and takes it out of
most conversations again by chance: here `reasoning=""` writes the block and None does not, and `as_drawn` takes the
chances that its trainer takes. What opens a turn of the model has the empty block.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

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


def draws(seed: int) -> np.random.RandomState:
    """The chances of Python's `random.seed(seed)`, 0 <= seed < 2^32."""
    return np.random.RandomState([seed])


def as_drawn(
    messages: Sequence[Message], tools: Sequence[Json], chances: np.random.RandomState, systems: Sequence[str]
) -> list[Message]:
    """A conversation as minimind's fine-tuning would next show it.

    Without tools and a system message one of `systems` (the original has ten) is put before it with a chance of 0.2.
    Where the assistant thought nothing, empty reasoning is shown with a chance of 0.2, in all turns or in none. Chances
    are used up in the original's order. Preference pairs have no chance of a system message: `systems=()`."""
    out = list(messages)
    if systems and out and not tools and out[0].role != "system" and chances.random_sample() < 0.2:
        out.insert(0, Message("system", systems[_choice(len(systems), chances)]))
    bare = [m.role == "assistant" and not (m.reasoning or "").strip("\n") and _CLOSE not in m.content for m in out]
    empty = "" if any(bare) and chances.random_sample() <= 0.2 else None
    return [replace(m, reasoning=empty) if is_bare else m for m, is_bare in zip(out, bare, strict=True)]


def _choice(count: int, chances: np.random.RandomState) -> int:
    """Python's random.choice among so many: the first word whose leading bits are a place."""
    bits = count.bit_length()
    while True:
        place = int(chances.randint(0, 1 << 32, dtype=np.uint32)) >> (32 - bits)
        if place < count:
            return place
