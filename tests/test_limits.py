"""All that makes documents or examples counts mended rows, and fails at the same bad rows with the same words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tokenriver as tr
from tokenriver.errors import InputError
from tokenriver.limits import MANY_BAD

MAKERS: dict[str, tuple[Callable[..., Any], str]] = {
    "build": (tr.build, '{"text": "q%s"}\n'),
    "sft": (tr.sft, '{"prompt": "q%s", "completion": "a"}\n'),
    "rl": (tr.rl_prompts, '{"question": "q%s", "answer": "#### 1"}\n'),
    "pairs": (tr.preference, '{"prompt": "q%s", "chosen": "a", "rejected": "b"}\n'),
    "choices": (tr.build_choices, '{"context": "q%s", "choices": ["a", "b"], "label": 1}\n'),
}
BAD = "not json\n"


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest, tmp_path: Path, quick_disk: None) -> Callable[..., Any]:
    """Makes examples of lines, in which GOOD is a good row, and MENDED one with half a character."""
    maker, row = MAKERS[request.param]
    own = {} if request.param == "rl" else {"tokenizer": "byte"}

    def run(text: str, **options: object) -> dict[str, Any]:
        (tmp_path / "in.jsonl").write_text(
            text.replace("GOOD", row % "").replace("MENDED", row % "\\ud800"), encoding="utf-8"
        )
        found: dict[str, Any] = maker(
            tmp_path / "in.jsonl", tmp_path / f"out{text.count(BAD)}", **own, **options
        ).as_dict()
        return found

    return run


def test_mended_rows_are_counted(make: Callable[..., Any]) -> None:
    made = make("GOODMENDED")
    assert made.get("notes", made.get("balance", {}).get("notes")) == {"lone-surrogate": 1}


def test_one_bad_row_is_refused_when_none_may_be(make: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"in\.jsonl: (line 2|byte 14): got not-json, expected no bad row; mend it"):
        make("GOOD" + BAD, on_bad="fail")


def test_nine_bad_rows_are_no_failure_and_ten_are(make: Callable[..., Any]) -> None:
    make("GOOD" + BAD * (MANY_BAD - 1))
    what = (
        rf"got {MANY_BAD} bad rows of 11 \(10 not-json\), expected at most 1\.00%.*first is in\.jsonl line 2: not-json"
    )
    with pytest.raises(InputError, match=what):
        make("GOOD" + BAD * MANY_BAD)
    make("GOOD" + BAD * MANY_BAD, max_bad=0.95)


def test_no_example_at_all(make: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"got 2 rows, none with a(n example| document) \(1 not-json\), expected some"):
        make("\n" + BAD)
    with pytest.raises(InputError, match=r"got 1 rows, none with a(n example| document) \(all are blank\), expected"):
        make("\n")


@pytest.mark.parametrize(
    ("options", "what"), [({"on_bad": "x"}, "on_bad: got 'x'"), ({"max_bad": 1.5}, "max_bad: got 1.5")]
)
def test_options_that_make_no_sense(make: Callable[..., Any], options: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        make("GOOD", **options)
