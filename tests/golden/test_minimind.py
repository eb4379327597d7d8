"""The TokenStream pair made from minimind's texts: read, and written byte for byte."""

import hashlib
import json
from itertools import accumulate
from pathlib import Path

import tokenriver as tr
from golden_data import golden
from made_contents import made_content, made_target
from tokenriver.formats import minimind


def test_the_pair_is_read_and_written_byte_for_byte(tmp_path: Path) -> None:
    folder = golden("minimind/tokenstream")
    meta = json.loads((folder / "meta.json").read_text())
    reader = minimind.open_reader(minimind.find(folder)[0].path)
    ends = list(accumulate(meta["doc_lengths"]))
    assert reader.doc_ends is not None
    assert reader.doc_ends.tolist() == ends
    assert [0, *ends[:-1]] == meta["doc_starts"]
    ids = reader.read(0, meta["tokens"])
    data, lengths = minimind.write(tmp_path / "tokens.bin", made_content(ids, ends), made_target())
    assert data.sha256 == meta["sha256_tokens_bin"]
    assert lengths.path.read_bytes() == (folder / "doc_lengths.npy").read_bytes()
    assert hashlib.sha256(data.path.read_bytes()).hexdigest() == data.sha256


def test_padding_and_truncation_are_those_that_were_counted_beside_it() -> None:
    folder = golden("minimind/tokenstream")
    counted = json.loads((folder / "meta.json").read_text())["padding_waste_and_truncation"]
    corpus = tr.open_corpus(folder, dtype="uint16")
    found = tr.stats(corpus, seq_lens=[int(seq_len) for seq_len in counted], packings=["minimind"])
    for row in found.rows:
        wanted = counted[str(row.seq_len)]
        assert (row.rows, row.padding, row.lost) == (wanted["rows"], wanted["pad_positions"], wanted["tokens_lost"])
