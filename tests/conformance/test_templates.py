"""What every chat template of the registry must do; a new one needs a line in GIVEN only if it reads a file."""

import random
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from chat_cases import CALM, SPECIALS, SYNTAX, talk, toy_file, toy_tokenizer
from chat_templates import CHATML, model
from tokenriver import registry
from tokenriver.chat import TRAIN, Chat, load_chat
from tokenriver.errors import InputError
from tokenriver.forms import Filled, Talks
from tokenriver.messages import EOS, SPECIAL, Message, Rendered
from tokenriver.types import Int64, TokenBatch

TOY = toy_tokenizer()
# templates of files need one
GIVEN = {"jinja": model(toy_file().parent / "model", CHATML["plus"])}
CHATS = [load_chat(GIVEN.get(name, name), TOY) for name in registry.names("templates")]
SPECIAL_IDS: dict[str, int] = getattr(TOY, "special_ids", {})
LIBRARY = Library.from_file(str(toy_file()))
DRAW = st.integers(0, 2**32).map(random.Random)
BY_NAME = pytest.mark.parametrize("chat", CHATS, ids=lambda chat: chat.name)


def _roles(chat: Chat) -> frozenset[str]:
    return (chat.roles or frozenset({"system", "user", "assistant"})) - {"tool"}


def _one(chat: Chat, rendered: Rendered) -> tuple[Int64, TokenBatch]:
    batch = chat.encode([rendered])
    assert batch.loss_mask is not None
    assert len(batch.loss_mask) == len(batch.ids) == batch.lengths.sum()
    return batch.ids.astype(np.int64), batch


def _specials(chat: Chat, rendered: Rendered) -> list[str]:
    names = [piece.text for piece in rendered.pieces if piece.kind == SPECIAL]
    return ["<|endoftext|>" if name == EOS else name for name in names]


def _clean(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@BY_NAME
@settings(max_examples=10)
@given(draw=DRAW)
def test_ids_spell_the_conversation_and_no_content_forges_a_token(chat: Chat, draw: random.Random) -> None:
    rendered = chat.render(talk(draw, _roles(chat)), generate=draw.random() < 0.5)
    ids, _ = _one(chat, rendered)
    assert TOY.decode(ids) == _clean(chat.text(rendered))
    special = {i: name for name, i in SPECIAL_IDS.items()}
    assert [special[i] for i in ids.tolist() if i in special] == _specials(chat, rendered)


@BY_NAME
@settings(max_examples=10)
@given(draw=DRAW)
def test_answers_and_their_ends_are_trained_and_nothing_else(chat: Chat, draw: random.Random) -> None:
    messages = [m for m in talk(draw, _roles(chat)) if m.content == m.content.strip() and "</think>" not in m.content]
    ids, batch = _one(chat, chat.render(messages, generate=True))
    stop = _specials(chat, chat.render([Message("assistant", "")]))[-1]
    newline = "\n" if chat.name == "minimind" else ""
    answers = [_clean(m.content) + stop + newline for m in messages if m.role == "assistant"]
    assert TOY.decode(ids[batch.loss_mask]) == "".join(answers)


@BY_NAME
@settings(max_examples=10)
@given(draw=DRAW)
def test_no_conversation_minds_its_neighbours(chat: Chat, draw: random.Random) -> None:
    several = [chat.render(talk(draw, _roles(chat))) for _ in range(draw.randrange(4))]
    together, alone = chat.encode(several), [_one(chat, one)[1] for one in several]
    assert together.lengths.tolist() == [len(one.ids) for one in alone]
    assert together.ids.tolist() == [i for one in alone for i in one.ids.tolist()]
    assert together.loss_mask is not None
    assert together.loss_mask.tolist() == [k for one in alone if one.loss_mask is not None for k in one.loss_mask]


@pytest.mark.parametrize("name", [name for name in registry.names("templates") if name not in GIVEN])
@settings(max_examples=20)
@given(draw=DRAW)
def test_contents_in_their_forms_give_what_rendering_gives(name: str, draw: random.Random) -> None:
    roles = draw.choice([(), ("user",), ("assistant", "system", "tool")])
    chat = load_chat(name, TOY, train=draw.choice(TRAIN), roles=roles, reasoning=draw.random() < 0.5)
    talks = [talk(draw, {*(chat.roles or ()), "judge"} if draw.random() < 0.1 else chat.roles or ()) for _ in range(8)]
    rendered: list[Rendered] = []
    mixed: list[Rendered | Filled] = []
    for one in talks:
        filled = chat.fill(Talks(tuple(m.role for m in one), [m.content for m in one], [len(one)]))
        try:
            rendered.append(chat.render(one))
        except InputError:
            assert filled is None
            continue
        assert (filled is not None) == (name in ("chatml", "plain"))
        mixed.append(filled if filled and draw.random() < 0.8 else rendered[-1])
    _same(chat.encode(mixed), chat.encode(rendered))


@pytest.mark.parametrize("name", ["chatml", "plain"])
@settings(max_examples=20)
@given(draw=DRAW)
def test_many_conversations_are_put_into_their_forms_at_once(name: str, draw: random.Random) -> None:
    chat = load_chat(name, TOY, train=draw.choice(TRAIN))
    talks = [talk(draw, chat.roles or ()) for _ in range(draw.randrange(1, 30))]
    roles, contents = (tuple(getattr(m, what) for one in talks for m in one) for what in ("role", "content"))
    filled = chat.fill(Talks(roles, contents, [len(one) for one in talks]))
    assert filled is not None
    _same(chat.encode([filled]), chat.encode([chat.render(one) for one in talks]))
    plain = np.frombuffer(filled.columns.plain, np.bool_)
    assert plain.tolist() == [text.isascii() for text in filled.texts]


def _same(found: TokenBatch, expected: TokenBatch) -> None:
    for ours, theirs in zip(astuple(found), astuple(expected), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tolist() == theirs.tolist()


@BY_NAME
@settings(max_examples=10)
@given(draw=DRAW)
def test_a_prompt_is_what_the_model_was_trained_on(chat: Chat, draw: random.Random) -> None:
    """Its ids are those in front of the answer, whatever is trained of the assistant's earlier turns."""
    messages = talk(draw, _roles(chat))
    prompt = chat.encode([chat.render(messages, generate=True)]).ids.tolist()
    marked = [replace(m, train=draw.random() < 0.5) if m.role == "assistant" else m for m in messages]
    answer = Message("assistant", "an answer", reasoning="" if chat.name == "minimind" else None)
    whole = chat.encode([chat.render([*marked, answer])]).ids.tolist()
    assert whole[: len(prompt)] == prompt


@BY_NAME
@settings(max_examples=10)
@given(draw=DRAW)
def test_ids_are_those_of_the_rendered_text(chat: Chat, draw: random.Random) -> None:
    """As the reference reads it with its special tokens, wherever no answer begins with a blank."""
    messages = [m for m in talk(draw, _roles(chat), CALM) if m.content == m.content.strip()]
    rendered = chat.render(messages, generate=draw.random() < 0.5)
    ids, _ = _one(chat, rendered)
    # in plain, header and content are two texts, as in the original
    assert chat.name == "plain" or ids.tolist() == LIBRARY.encode(chat.text(rendered), add_special_tokens=False).ids


@BY_NAME
@pytest.mark.parametrize("content", ["", *SPECIALS, *SYNTAX], ids=lambda text: ascii(text[:12]))
def test_hostile_contents(chat: Chat, content: str) -> None:
    talk = [Message("user", content), Message("assistant", content)]
    ids, batch = _one(chat, chat.render(talk))
    assert TOY.decode(ids).count(_clean(content.strip())) >= 2
    assert TOY.decode(ids[batch.loss_mask]).startswith(_clean(content.strip()))


@BY_NAME
def test_a_megabyte_of_content(chat: Chat) -> None:
    content = "x y " * 250_000 + "."
    own = TOY.encode(content)
    ids, batch = _one(chat, chat.render([Message("user", "a"), Message("assistant", content)]))
    assert batch.loss_mask is not None
    assert ids[batch.loss_mask][: len(own)].tolist() == own.tolist()
    assert len(own) < np.count_nonzero(batch.loss_mask) < len(own) + 3


@BY_NAME
def test_who_does_not_fit_is_refused(chat: Chat) -> None:
    nothing: Any = None
    odd = [Message("user", "a", reasoning="b"), Message("user", "a", tool_calls=({"name": "f", "arguments": {}},))]
    for message in [*odd, Message("nobody", "a"), Message("user", nothing)]:
        with pytest.raises(InputError, match=r"got "):
            chat.render([message])
