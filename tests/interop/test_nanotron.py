"""datatrove's token files: its datasets read what we write, and we read what its tokenizer's file writes."""

from itertools import accumulate, product
from pathlib import Path

import pytest

from peer_programs import DOCUMENTS, EVEN, ask, converted, documents_of, flat
from tokenriver.corpus import open_corpus

pytestmark = pytest.mark.interop

WIDTHS = {"uint16": 2, "uint32": 4}


def _positions(begin: int, length: int) -> list[int]:
    """As datatrove counts them: from the start of the document, or of the sample if the document began before it."""
    starts = [0, *accumulate(map(len, DOCUMENTS))]
    return [at - max((s for s in starts if begin <= s <= at), default=begin) for at in range(begin, begin + length)]


def test_datatrove_reads_what_is_written(tmp_path: Path) -> None:
    requests = [
        {"file": file, "width": width, "length": 9}
        for dtype, width in WIDTHS.items()
        for file in converted(tmp_path / "our", "nanotron", [DOCUMENTS], dtype=dtype).glob("*.ds")
    ]
    several = sorted(converted(tmp_path / "our", "nanotron", [EVEN[:50], EVEN[50:]]).glob("*.ds"))
    assert len(several) == 2
    answers = ask("nanotron", "read", [*requests, {"file": several[0], "width": 2, "length": 16}], tmp_path)
    ids = flat(DOCUMENTS)
    begins = range(0, len(ids) - 8, 9)
    for found in answers[:-1]:
        assert found["ids"] == found["folder"] == [ids[at : at + 9] for at in begins]
        assert found["positions"] == [_positions(at, 9) for at in begins]
    assert len(answers) == 3
    assert answers[-1]["folder"] == EVEN


def test_what_datatrove_writes_is_read(tmp_path: Path) -> None:
    cases = list(product(WIDTHS.items(), ("gpt2", None)))
    requests = [
        {
            "folder": tmp_path / str(i),
            "name": "00000_unshuffled.ds",
            "documents": DOCUMENTS,
            "width": width,
            "tokenizer": tokenizer,
        }
        for i, ((_, width), tokenizer) in enumerate(cases)
    ]
    ask("nanotron", "write", requests, tmp_path)
    for number, ((dtype, _), _) in enumerate(cases):
        corpus = open_corpus(tmp_path / str(number))
        assert (corpus.format, corpus.dtype.name) == ("nanotron", dtype)
        assert documents_of(corpus) == DOCUMENTS


@pytest.mark.parametrize("dtype", WIDTHS)
def test_ours_are_byte_for_byte_what_datatrove_writes(dtype: str, tmp_path: Path) -> None:
    [ours] = converted(tmp_path / "our", "nanotron", [DOCUMENTS], dtype=dtype).glob("*.ds")
    tokenizer = ours.with_name(f"{ours.name}.metadata").read_text().partition("|")[0]
    request = {
        "folder": tmp_path / "ds",
        "name": "theirs.ds",
        "documents": DOCUMENTS,
        "width": WIDTHS[dtype],
        "tokenizer": tokenizer,
    }
    ask("nanotron", "write", [request], tmp_path)
    for suffix in ("", ".index", ".metadata"):
        assert Path(f"{ours}{suffix}").read_bytes() == (tmp_path / "ds" / f"theirs.ds{suffix}").read_bytes()
