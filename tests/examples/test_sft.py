"""Records of every shape become conversations; what is no conversation is refused by name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenriver import registry
from tokenriver.errors import InputError
from tokenriver.messages import Message

sft = registry.load("examples", "sft")
USER, ANSWER = Message("user", "Q"), Message("assistant", "A")

SHAPED: list[tuple[str, dict[str, Any], list[Message]]] = [
    ("messages", {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]}, []),
    ("conversations", {"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]}, []),
    ("conversations", {"conversations": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]}, []),
    ("alpaca", {"instruction": " Q ", "output": "A\n"}, []),
    (
        "alpaca",
        {"instruction": "Q", "input": " more ", "output": "A", "system": "S"},
        [Message("system", "S"), Message("user", "Q\n\nmore"), ANSWER],
    ),
    ("alpaca", {"instruction": "Q", "input": None, "output": "A"}, []),
    ("dolly", {"instruction": "Q", "context": " ", "response": "A", "category": "x"}, []),
    (
        "gsm8k",
        {"question": " Q", "answer": "2+2 = <<2+2=4>>4\nso\n#### 1,004 "},
        [USER, Message("assistant", "<think>2+2 = 4\nso</think><answer>1,004</answer>")],
    ),
    (
        "gsm8k",
        {"question": "Q", "answer": " A "},
        [USER, Message("assistant", "<think>A</think><answer>A</answer>")],
    ),
    ("prompt-completion", {"prompt": "Q", "completion": "A"}, []),
    ("prompt-response", {"prompt": " Q", "response": "A "}, [Message("user", " Q"), Message("assistant", "A ")]),
]


@pytest.mark.parametrize(("shape", "record", "expected"), SHAPED)
def test_shapes(shape: str, record: dict[str, Any], expected: list[Message]) -> None:
    for asked in ("auto", shape):
        reader = sft.Reader("a.jsonl", asked)
        assert reader.read(record).messages == (expected or [USER, ANSWER])
        assert reader.shape == shape


def _entries(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"messages": list(entries)}


def test_everything_that_a_message_can_say() -> None:
    call = {"type": "function", "id": "1", "function": {"name": "f", "arguments": '{"x": 1}'}}
    record = _entries(
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "Eve"},
        {"role": "assistant", "content": None, "tool_calls": [call], "weight": 0, "refusal": None},
        {"role": "assistant", "content": "A", "reasoning_content": "R", "train": True, "tool_calls": ""},
    )
    talk = sft.Reader("a", "auto").read({**record, "tools": '[{"name": "f"}]'})
    assert talk.messages == [
        Message("user", "ab"),
        Message("assistant", "", None, [{"name": "f", "arguments": {"x": 1}}], False),
        Message("assistant", "A", "R", train=True),
    ]
    assert talk.tools == [{"name": "f"}]
    assert talk.notes == ["field-not-rendered"]
    first = {"role": "system", "content": "S", "tools": '[{"name": "g"}]'}
    assert sft.Reader("a").read({"conversations": [first]}).tools == [{"name": "g"}]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (_entries(), "empty-conversation", ""),
    ({"messages": None}, "field-missing", "messages"),
    ({"messages": "hello"}, "not-a-list", "messages"),
    (_entries({"role": "user"}), "field-missing", "content"),
    (_entries({"content": "x"}), "field-missing", "role"),
    (_entries({"role": "user", "content": 3}), "not-a-string", "content"),
    (_entries({"role": "user", "content": [{"type": "image_url"}]}), "not-a-string", "content"),
    (_entries({"role": "user", "content": "x", "audio": "y"}), "unknown-field", "audio"),
    (_entries({"role": "user", "content": "x", "weight": 0.5}), "train-flag", "[0.5]"),
    (_entries({"role": "user", "content": "x", "tool_calls": "{"}), "tool-call", "tool-call"),
    (_entries({"role": "user", "content": "x", "tool_calls": [{"name": "f"}]}), "tool-call", "arguments"),
    (_entries({"role": "user", "content": "x"}, {"role": "tool", "content": "y", "tools": [1]}), "unknown-field", ""),
    ({"messages": [3]}, "not-an-object", "message"),
    ({"conversations": [{"from": "bing", "value": "x"}]}, "unknown-role", "bing"),
    ({"instruction": "Q", "output": None}, "field-missing", "output"),
    ({"instruction": "Q", "output": ["A"]}, "not-a-string", "output"),
    ({"instruction": "Q", "output": "A", "history": [["a", "b"]]}, "unknown-field", "history"),
]


@pytest.mark.parametrize(("record", "reason", "detail"), REFUSED)
def test_what_is_no_conversation(record: dict[str, Any], reason: str, detail: str) -> None:
    with pytest.raises(sft.Refused) as refused:
        sft.Reader("a", "auto").read(record)
    assert refused.value.reason == reason
    assert detail in refused.value.detail


def test_shapes_that_are_not_one() -> None:
    alpaca, dolly = {"instruction": "Q", "output": "A"}, {"instruction": "Q", "response": "A"}
    with pytest.raises(InputError, match=r"a\.jsonl: record: got the keys chosen, prompt, expected those of one shape"):
        sft.Reader("a.jsonl").read({"prompt": "Q", "chosen": "A"})
    with pytest.raises(InputError, match="instruction, output, response of the shapes alpaca and dolly, expected one"):
        sft.Reader("a").read(alpaca | dolly)
    assert sft.Reader("a", "dolly").read({**alpaca, "response": "B"}).messages[1] == Message("assistant", "B")
    reader = sft.Reader("a")
    reader.read(alpaca)
    with pytest.raises(InputError, match="of shape dolly among records of shape alpaca"):
        reader.read(dolly)
    with pytest.raises(sft.Refused) as refused:
        reader.read({"instruction": "Q"})
    assert (refused.value.reason, refused.value.detail) == ("field-missing", "output")
    with pytest.raises(InputError, match="shape: got 'parchment', expected one of auto, messages"):
        sft.Reader("a", "parchment")


VALUES = st.sampled_from(["", "a", "user", "gpt", "human", None, 1, ["a"], {"role": "user"}])
ENTRIES = st.one_of(
    st.fixed_dictionaries({"role": st.just("user"), "content": st.just("Q")}),
    st.fixed_dictionaries({"from": st.sampled_from(["gpt", "human"]), "value": st.just("A")}),
    st.dictionaries(st.sampled_from(["role", "content", "from", "value", "name", "weight"]), VALUES, max_size=3),
    VALUES,
)
BESIDE = st.dictionaries(st.sampled_from(["system", "tools", "source"]), VALUES, max_size=2)


@given(
    st.sampled_from(["messages", "conversations"]),
    st.lists(st.tuples(st.one_of(VALUES, st.lists(ENTRIES, max_size=4)), BESIDE), min_size=1, max_size=3),
)
def test_talks_are_what_is_read(name: str, several: list[tuple[object, dict[str, Any]]]) -> None:
    records = [{name: entries, **beside} for entries, beside in several]
    for shape in ("auto", name):
        reader = sft.Reader("a.jsonl", shape)
        if shape == "auto":
            assert reader.talks(records) is None, "the first record tells the shape"
            reader.read({name: [{"role": "user", "content": "Q"}]})
        talks = reader.talks(records)
        try:
            read = [reader.read(record) for record in records]
        except sft.Refused:
            assert talks is None
            continue
        if talks is not None:
            found = [[Message(*turn) for turn in zip(*columns, strict=True)] for columns in talks.each()]
            assert read == [(talk, (), []) for talk in found]
            continue
        entries = [entry for record in records for entry in record[name]]
        fields = {"".join(sorted(entry)) for entry in entries}
        assert any(beside for _, beside in several) or fields not in ({"contentrole"}, {"fromvalue"})


def test_talks_of_other_shapes_are_read() -> None:
    reader = sft.Reader("a.jsonl", "auto")
    reader.read({"prompt": "Q", "completion": "A"})
    assert reader.talks([{"prompt": "Q", "completion": "A"}]) is None
    assert reader.talks([{"messages": [{"role": "user", "content": "Q"}]}]) is None
    with pytest.raises(InputError, match="of shape messages among records of shape prompt-completion"):
        reader.read({"messages": [{"role": "user", "content": "Q"}]})
