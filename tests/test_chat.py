"""What of a conversation is trained, and what is refused."""

import pytest

from tokenriver.chat import Chat, load_chat
from tokenriver.errors import InputError
from tokenriver.messages import Message
from tokenriver.tokenizer import load_tokenizer
from tokenriver.types import TokenBatch

BYTE = load_tokenizer("byte")
TALK = [Message("system", "S"), Message("user", "ab"), Message("assistant", "cd"), Message("user", "e")]
TALK += [Message("assistant", "f")]


def _trained(batch: TokenBatch) -> str:
    """The trained ids as text, | for the end of a turn."""
    assert batch.loss_mask is not None
    return "".join("|" if i == 256 else chr(i) for i in batch.ids[batch.loss_mask].tolist())


def _encode(chat: Chat, *conversations: list[Message]) -> TokenBatch:
    return chat.encode([chat.render(messages) for messages in conversations])


def test_answers_and_their_ends_are_trained() -> None:
    assert _trained(_encode(load_chat("plain", BYTE), TALK)) == "cd|f|"


def test_only_the_last_answer_if_asked() -> None:
    assert _trained(_encode(load_chat("plain", BYTE, train="last"), TALK, TALK[:3])) == "f|cd|"


def test_other_roles_if_asked() -> None:
    assert _trained(_encode(load_chat("plain", BYTE, roles=["user", "system"]), TALK)) == "S|ab|e|"


def test_a_message_itself_decides_first() -> None:
    talk = [Message("user", "ab", train=True), Message("assistant", "cd", train=False), Message("assistant", "e")]
    assert _trained(_encode(load_chat("plain", BYTE), talk)) == "ab|e|"


def test_a_text_that_spells_a_special_token_is_text() -> None:
    gpt2 = load_tokenizer("gpt2")
    chat = load_chat("plain", gpt2)
    batch = _encode(chat, [Message("user", "<|endoftext|>"), Message("assistant", "a<|endoftext|>")])
    assert batch.ids.tolist().count(50256) == 2
    assert gpt2.decode(batch.ids).count("<|endoftext|>") == 4


def test_nothing_gives_nothing() -> None:
    chat = load_chat("plain", BYTE)
    for batch in (_encode(chat), _encode(chat, [], [])):
        assert len(batch.ids) == 0
    assert _encode(chat, [], TALK[:2], []).lengths.tolist() == [0, 25, 0]


def test_the_fingerprint_tells_what_decides_ids_and_mask() -> None:
    chats = [load_chat("plain", BYTE), load_chat("plain", BYTE, train="last"), load_chat("plain", BYTE, roles=["user"])]
    chats += [load_chat("plain", BYTE, reasoning=False), load_chat("plain", load_tokenizer("gpt2"))]
    assert len({chat.fingerprint for chat in chats}) == len(chats)
    assert chats[0].fingerprint == load_chat("plain", load_tokenizer("byte")).fingerprint


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (Message("tool", "x"), "role: got 'tool', expected one of assistant, system, user"),
        (Message("assistant", "x", reasoning="y"), "got reasoning"),
        (Message("assistant", "x", tool_calls=({"name": "f"},)), "got tool calls"),
    ],
)
def test_what_has_no_form_is_refused(message: Message, named: str) -> None:
    with pytest.raises(InputError, match=named):
        load_chat("plain", BYTE).render([message])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="train: got 'some'"):
        load_chat("plain", BYTE, train="some")
    with pytest.raises(InputError, match="templates: got 'none-such', expected one of"):
        load_chat("none-such", BYTE)
