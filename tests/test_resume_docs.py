"""The three lines of docs/resume.md do what they say."""

import json
import re
from pathlib import Path
from typing import Any

import tokenriver as tr
from rivers import ArrayRiver

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "resume.md"


def test_three_lines_go_on_with_the_next_batch() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    save, *restore = example.splitlines()
    assert len(restore) == 2
    corpus = ArrayRiver(64 * 80 + 1)
    whole = list(tr.Loader(corpus, seq_len=64, global_batch=8, seed=1))
    for stop in range(len(whole)):
        names: dict[str, Any] = {"tr": tr, "corpus": corpus, "batch": whole[stop]}
        exec(save, names)
        names["state"] = json.loads(json.dumps(names["state"]))
        exec("\n".join(restore), names)
        rest = [batch.row_numbers.tolist() for batch in names["loader"]]
        assert rest == [batch.row_numbers.tolist() for batch in whole[stop + 1 :]]
