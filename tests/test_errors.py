"""Names and paths where an open thing is asked for are refused with the call that opens it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import tokenriver as tr


@pytest.mark.parametrize("given", ["corpus", Path("corpus")])
@pytest.mark.parametrize(
    ("call", "options", "cure"),
    [
        (tr.Loader, {"seq_len": 8, "global_batch": 1}, "open_corpus"),
        (tr.PairLoader, {"max_length": 8, "global_batch": 1}, "open_corpus"),
        (tr.EvalLoader, {"batch_rows": 8, "seq_len": 8}, "open_choices"),
        (partial(tr.load_chat, "plain"), {}, "load_tokenizer"),
    ],
)
def test_a_name_is_refused(call: Callable[..., object], options: dict[str, int], cure: str, given: object) -> None:
    with pytest.raises(tr.InputError, match=f"got 'corpus', expected the thing itself; give what {cure} makes of it"):
        call(given, **options)
