"""Conversations -> ids and loss mask, by a template of templates/ and a tokenizer.

    chat = load_chat("plain", load_tokenizer("gpt2"))
    batch = chat.encode([chat.render(messages) for messages in conversations])     # ids, lengths, loss_mask: columns

Each piece of a rendered conversation is encoded on its own, in one native call for all; special tokens take the places
that the call leaves free between two texts.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tokenriver import registry
from tokenriver.errors import InputError, refuse_name
from tokenriver.forms import Filled, Form, Talks, fill, form_of, joined, marks, spell
from tokenriver.messages import BOS, EOS, SPECIAL, Message, Rendered, Template
from tokenriver.steps import Steps
from tokenriver.types import Ids, Int64, Json, TokenBatch, Tokenizer

TRAIN = ("all", "last")
FROM_FILES = "jinja"
"""The module for templates of files; it has none without."""
_KEPT = 1 << 16
"""Texts of all forms that are remembered."""


class Chat:
    """One template with one tokenizer, and what of a conversation is trained."""

    __slots__ = (
        "_beside",
        "_forms",
        "_in_steps",
        "_kept",
        "_reasoning",
        "_roles",
        "_specials",
        "_template",
        "_tokenizer",
        "_train",
        "name",
    )

    def __init__(
        self, name: str, template: Template, tokenizer: Tokenizer, train: str, reasoning: bool, roles: frozenset[str]
    ) -> None:
        self.name = name
        self._template, self._tokenizer = template, tokenizer
        let: Callable[[], Tokenizer] | None = getattr(tokenizer, "letting_threads_run", None)
        self._beside = let() if let is not None else tokenizer
        self._in_steps: Callable[..., Steps[tuple[Ids, Int64]]] | None = getattr(self._beside, "in_steps", None)
        self._train, self._reasoning, self._roles = train, reasoning, roles
        self._specials: dict[str, int] = {}
        self._forms: dict[tuple[str, ...], Form] = {}
        self._kept = 0

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    @property
    def threaded(self) -> bool:
        """Can `encode` work beside other threads of Python's, and is that of use?"""
        return self._in_steps is not None and self._beside.encoder == "fast"

    def self_check(self, *, beside: bool = False) -> None:
        """MismatchError if the encoder is a fast one, and not what its reference is."""
        encoder = self._beside if beside else self._tokenizer
        if encoder.encoder == "fast":
            encoder.self_check()

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
        for message in messages:
            if not isinstance(message.content, str):
                raise InputError(
                    f"content of {message.role}: got {type(message.content).__name__}, expected str; mend the record"
                )
        trained = self._trained(messages)
        pieces = self._template.render(messages, tools=tools, generate=generate, trained=trained)
        return Rendered(pieces, trained)

    def text(self, rendered: Rendered) -> str:
        """A rendered conversation as text, special tokens by what they look like."""
        parts = [
            self._tokenizer.decode([self._special(piece.text)]) if piece.kind == SPECIAL else piece.text
            for piece in rendered.pieces
        ]
        return "".join(parts)

    def fill(self, talks: Talks) -> Filled | None:
        """What `render` makes of conversations of texts alone, sooner; None where only `render` can tell."""
        numbers: dict[tuple[str, ...], int] = {}
        which = [numbers.setdefault(roles, len(numbers)) for roles in talks.each_roles()]
        forms: list[Form] = []
        for roles in numbers:
            form = self._forms.get(roles) or self._form(roles)
            if form is None:
                return None
            forms.append(form)
        return fill(forms, which, talks.contents)

    def encode(self, conversations: Sequence[Rendered | Filled]) -> TokenBatch:
        """Ids of k rendered conversations, their lengths, and which ids are trained."""
        filled = self._filled(conversations)
        return _batch(filled, self._tokenizer.encode_framed(filled.texts, None, 0))

    def in_steps(self, conversations: Sequence[Rendered | Filled]) -> Steps[TokenBatch]:
        """What `encode` does, for a `threaded` chat: two steps, of which the first keeps no lock of the interpreter's,
        and the second seldom."""
        assert self._in_steps is not None, "the chat is threaded"
        filled = self._filled(conversations)
        foreign = np.flatnonzero(~np.frombuffer(filled.columns.plain, np.bool_)).tolist()
        encode, part = self._in_steps(filled.texts, foreign, 0).steps
        return Steps((encode, lambda ids: _batch(filled, part(ids))))

    def _filled(self, conversations: Sequence[Rendered | Filled]) -> Filled:
        """All of them as one."""
        spelled = [one if isinstance(one, Filled) else self._spelled(one) for one in conversations]
        if len(spelled) == 1:
            return spelled[0]
        texts = list(chain.from_iterable([one.texts for one in spelled]))
        sizes = list(chain.from_iterable([one.sizes for one in spelled]))
        return Filled(texts, joined([one.columns for one in spelled]), sizes)

    def _spelled(self, rendered: Rendered) -> Filled:
        special = self._specials
        return spell(rendered, lambda name: special[name] if name in special else self._special(name), self._reasoning)

    def _form(self, roles: tuple[str, ...]) -> Form | None:
        """The form of conversations of these roles, if the template has one; what it refuses has none."""
        if not getattr(self._template, "VERBATIM", False):
            return None
        contents = marks(len(roles))
        try:
            rendered = self.render([Message(*turn) for turn in zip(roles, contents, strict=True)])
        except InputError:
            return None
        form = form_of(self._spelled(rendered), contents)
        if self._kept < _KEPT:
            self._kept += len(form.texts)
            self._forms[roles] = form
        return form

    def _special(self, name: str) -> int:
        known: dict[str, int] = getattr(self._tokenizer, "special_ids", {})
        roles = {EOS: self._tokenizer.eos_id, BOS: self._tokenizer.bos_id}
        found = roles[name] if name in roles else known.get(name)
        if found is None:
            raise InputError(
                f"template {self.name}: needs the special token {name!r}, which the tokenizer {self._tokenizer.name} "
                f"has not ({', '.join(sorted(known)) or 'it has none'}); choose another template or tokenizer"
            )
        self._specials[name] = found
        return found

    def _trained(self, messages: Sequence[Message]) -> list[bool]:
        """Of each message: is what it answers trained?"""
        by_role = [message.role in self._roles for message in messages]
        if self._train == "last":
            last = max((i for i, trained in enumerate(by_role) if trained), default=-1)
            by_role = [i == last for i in range(len(messages))]
        return [own if message.train is None else message.train for own, message in zip(by_role, messages, strict=True)]


def _batch(filled: Filled, encoded: tuple[Ids, Int64]) -> TokenBatch:
    """The conversations whose texts, each with the id 0 behind it, were encoded."""
    ids, lengths = encoded
    own = np.frombuffer(filled.columns.ends, np.int64)
    trained, ends_trained = (
        np.frombuffer(column, np.bool_) for column in (filled.columns.trained, filled.columns.ends_trained)
    )
    places = np.cumsum(lengths) - 1
    bare = own < 0
    ids[places] = np.where(bare, 0, own)
    if bare.any():
        keep = np.ones(len(ids), np.bool_)
        keep[places[bare]] = False
        ids, lengths = ids[keep], lengths - bare
    ends = np.cumsum(lengths)
    mask = np.repeat(trained, lengths)
    mask[ends[~bare] - 1] = ends_trained[~bare]
    bounds = np.append(0, ends)[np.cumsum(filled.sizes, dtype=np.int64)]
    return TokenBatch(ids, np.diff(bounds, prepend=0), mask)


def load_chat(
    template: str | Path,
    tokenizer: Tokenizer,
    *,
    train: str = "all",
    reasoning: bool = True,
    roles: Collection[str] = (),
    variables: Json | None = None,
) -> Chat:
    """The chat template of that name, or in that folder or file, for one tokenizer. `train`: all assistant turns, or
    only the last; `reasoning`: is what the assistant thought trained as well; `roles`: those whose messages are trained
    (none named: assistant). A message's own `train` wins over both. `variables`: what a template of a file reads beside
    the conversation, as {"enable_thinking": False}, and no others; no clock is in its reach, so "strftime_now" is the
    date as text."""
    refuse_name("tokenizer", tokenizer, "what load_tokenizer makes of it")
    if train not in TRAIN:
        raise InputError(f"train: got {train!r}, expected one of {', '.join(TRAIN)}; choose one")
    whose = frozenset(roles or ("assistant",))
    if _is_path(template):
        own: dict[str, int] = getattr(tokenizer, "special_ids", {})
        module: Any = registry.load("templates", FROM_FILES).load(Path(template), own, variables or {}, reasoning)
        if whose - module.TRAINED:
            raise InputError(f"roles: got {', '.join(sorted(whose))}, expected only assistant for a template of a file")
    else:
        if variables or template == FROM_FILES:
            raise InputError(
                f"template {template}: got {'template options' if variables else 'no file'}, expected the path of a "
                "template's file or of a model's folder; give one"
            )
        module = registry.load("templates", str(template))
    return Chat(FROM_FILES if _is_path(template) else str(template), module, tokenizer, train, reasoning, whose)


def template_facts(chat: Chat, template: str | Path, template_options: Json | None) -> Json:
    """What a manifest says of a chat template: its name, a fingerprint, and the options that it was given, if any.
    InputError for options that are no values of JSON."""
    facts = {"template": Path(template).name, "chat": chat.fingerprint}
    if not template_options:
        return facts
    try:
        given = orjson.loads(orjson.dumps(dict(template_options)))
    except TypeError:
        given = None
    if given != template_options:
        raise InputError(
            f"template_options: got {str(template_options)[:100]}, expected values of JSON; give texts, numbers, lists"
        )
    return {**facts, "template_options": given}


def _is_path(template: str | Path) -> bool:
    """Is it a path, and no name of the registry or of someone else's module?"""
    if isinstance(template, Path) or "/" in template or template.endswith((".jinja", ".json")):
        return True
    return template not in registry.names("templates") and Path(template).is_dir()
