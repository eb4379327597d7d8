"""Conversations -> ids and loss mask, by a template of templates/ and a tokenizer.

    chat = load_chat("plain", load_tokenizer("gpt2"))
    batch = chat.encode([chat.render(messages) for messages in conversations])     # ids, lengths, loss_mask: columns

Each piece of a rendered conversation is encoded on its own, in one native call for all; the template's own texts, which
recur, are encoded once.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tokenriver import registry
from tokenriver.errors import InputError
from tokenriver.messages import (
    BOS,
    CONTEXT,
    EOS,
    REASONING,
    SPECIAL,
    TEXT,
    Message,
    Piece,
    Rendered,
    Template,
)
from tokenriver.types import Ids, Int64, Json, TokenBatch, Tokenizer

TRAIN = ("all", "last")


class Chat:
    """One template with one tokenizer, and what of a conversation is trained."""

    __slots__ = ("_fixed", "_options", "_reasoning", "_roles", "_stock", "_template", "_tokenizer", "_train", "name")

    def __init__(
        self, name: str, template: Template, tokenizer: Tokenizer, train: str, reasoning: bool, roles: frozenset[str]
    ) -> None:
        self.name = name
        self._template, self._tokenizer = template, tokenizer
        self._train, self._reasoning, self._roles = train, reasoning, roles
        self._fixed: dict[tuple[str, int], int] = {}
        self._stock: list[Ids] = []

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    @property
    def roles(self) -> frozenset[str] | None:
        """The roles that the template knows; None if only rendering tells."""
        return self._template.ROLES

    @property
    def fingerprint(self) -> str:
        """sha256 (hex) over what determines ids and mask: template, tokenizer, what is trained."""
        own = getattr(self._template, "FINGERPRINT", "")
        content = [self.name, own, self._tokenizer.fingerprint, self._train, self._reasoning, sorted(self._roles)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def render(self, messages: Sequence[Message], *, tools: Sequence[Json] = (), generate: bool = False) -> Rendered:
        """The pieces of a conversation; with `generate`, then what opens the assistant's next turn. InputError for a
        conversation that the template does not know."""
        pieces = self._template.render(messages, tools=tools, generate=generate)
        return Rendered(pieces, self._trained(messages))

    def encode(self, conversations: Sequence[Rendered]) -> TokenBatch:
        """Ids of k rendered conversations, their lengths, and which ids are trained."""
        pieces = [piece for rendered in conversations for piece in rendered.pieces]
        reasoning = self._reasoning
        kept = [
            loss != CONTEXT and trained[message] and (reasoning or loss != REASONING)
            for rendered, trained in conversations
            for _, _, loss, message in rendered
        ]
        ids, lengths = self._encode_pieces(pieces)
        ends = np.append(0, np.cumsum([len(rendered.pieces) for rendered in conversations], dtype=np.int64))
        bounds = np.append(0, np.cumsum(lengths))[ends]
        return TokenBatch(ids, np.diff(bounds), np.repeat(np.array(kept, np.bool_), lengths))

    def _encode_pieces(self, pieces: Sequence[Piece]) -> tuple[Ids, Int64]:
        """Flat ids of some pieces and the length of each: texts by one native call, the rest from the stock."""
        ids, lengths = self._tokenizer.encode_batch([text for text, kind, _, _ in pieces if kind == TEXT])
        # which run of ids each piece shows: those of the texts in order, behind them the stock
        which = np.fromiter((-1 if piece.kind == TEXT else self._place(piece) for piece in pieces), np.int64)
        texts = which < 0
        which[texts] = np.arange(len(lengths))
        which[~texts] += len(lengths)
        runs = np.append(lengths, np.array([len(known) for known in self._stock], np.int64))
        sizes = runs[which]
        shifts = (np.cumsum(runs) - runs)[which] - (np.cumsum(sizes) - sizes)
        every: Ids = np.concatenate([ids, *self._stock])
        return every[np.repeat(shifts, sizes) + np.arange(sizes.sum())], sizes

    def _place(self, piece: Piece) -> int:
        """Where the ids of a recurring piece stand in the stock; they are put there when they are first met."""
        key = (piece.text, piece.kind)
        if key not in self._fixed:
            ids = self._special(piece.text) if piece.kind == SPECIAL else self._tokenizer.encode(piece.text)
            self._fixed[key] = len(self._stock)
            self._stock.append(ids)
        return self._fixed[key]

    def _special(self, name: str) -> Ids:
        known: dict[str, int] = getattr(self._tokenizer, "special_ids", {})
        roles = {EOS: self._tokenizer.eos_id, BOS: self._tokenizer.bos_id}
        found = roles[name] if name in roles else known.get(name)
        if found is None:
            raise InputError(
                f"template {self.name}: needs the special token {name!r}, which the tokenizer {self._tokenizer.name} "
                f"has not ({', '.join(sorted(known)) or 'it has none'}); choose another template or tokenizer"
            )
        return np.array([found], np.uint32)

    def _trained(self, messages: Sequence[Message]) -> list[bool]:
        """Of each message: is what it answers trained?"""
        by_role = [message.role in self._roles for message in messages]
        if self._train == "last":
            last = max((i for i, trained in enumerate(by_role) if trained), default=-1)
            by_role = [i == last for i in range(len(messages))]
        return [own if message.train is None else message.train for own, message in zip(by_role, messages, strict=True)]


def load_chat(
    template: str, tokenizer: Tokenizer, *, train: str = "all", reasoning: bool = True, roles: Collection[str] = ()
) -> Chat:
    """The chat template of that name, for one tokenizer. `train`: all assistant turns, or only the last; `reasoning`:
    is what the assistant thought trained as well; `roles`: those whose messages are trained (none named: assistant).
    A message's own `train` wins over both."""
    if train not in TRAIN:
        raise InputError(f"train: got {train!r}, expected one of {', '.join(TRAIN)}; choose one")
    module: Any = registry.load("templates", template)
    return Chat(template, module, tokenizer, train, reasoning, frozenset(roles or ("assistant",)))
