"""Chunks that litdata's own writer made, read exactly and written byte for byte, one of them without the files too."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden_data import golden
from made_contents import made_content, write_shards
from open_shards import all_ends, all_ids
from tokenriver.formats import litdata

CASES = {"numpy_uint16": ("uint16", ""), "tensor_int32": ("int32", "tensor"), "tensor_int64": ("int64", "tensor")}
LAST = [
    *(25635, 15530, 28536, 44217, 47863, 12217, 31916, 10474, 30909, 42508, 49324, 7064, 14433, 15345, 18940, 6959),
    *(38943, 26463, 48843, 46488, 29469, 26852, 32181, 13571, 45401, 47771, 37499, 21205, 41730, 13110, 32737),
    *(28140, 34820, 47363),
]
LAST_SHA256 = "ed663d8cb609b6a150ec48465677d232675686179399b688bae5ee226b1d7a50"


def _case(name: str) -> dict[str, Any]:
    cases = json.loads(golden("litdata/litdata_cases.json").read_text())
    found: dict[str, Any] = cases[name if name in cases else "hand_chunk_bytes_100_int32"]
    return found


def test_the_originals_bytes_are_ours(tmp_path: Path) -> None:
    (written,) = write_shards(litdata, tmp_path, [made_content(LAST)])
    assert written.sha256 == LAST_SHA256


@pytest.mark.parametrize("name", [*CASES, "hand"])
def test_the_original_sets_are_read(name: str) -> None:
    folder, docs = golden(f"litdata/{name}"), _case(name)["source_docs"]
    assert litdata.sniff(folder)
    ids: list[int] = []
    ends: list[int] = []
    for shard in litdata.find(folder):
        assert litdata.sniff(shard.path)
        reader = litdata.open_reader(shard.path)
        assert (reader.num_tokens, reader.dtype.name) == (shard.num_tokens, shard.dtype)
        ends += [len(ids) + end for end in all_ends(reader)]
        ids += all_ids(reader)
    assert ids == [i for doc in docs for i in doc]
    assert ends == np.cumsum([len(doc) for doc in docs]).tolist()


@pytest.mark.parametrize("name", CASES)
def test_what_they_hold_is_written_as_they_are(tmp_path: Path, name: str) -> None:
    """All bytes but the time, and the limit of ids, which no file keeps to exactly."""
    dtype, layout = CASES[name]
    folder = golden(f"litdata/{name}")
    contents = []
    for shard in litdata.find(folder):
        reader = litdata.open_reader(shard.path)
        contents.append(made_content(all_ids(reader), all_ends(reader), dtype, block=13))
    written = write_shards(litdata, tmp_path, contents, dtype, layout=layout)
    assert [file.path.name for file in written] == [shard.path.name for shard in litdata.find(folder)]
    for file in written:
        assert file.sha256 == hashlib.sha256((folder / file.path.name).read_bytes()).hexdigest()
    theirs = json.loads((folder / "index.json").read_text())
    theirs["updated_at"] = litdata.UPDATED_AT
    theirs["config"]["chunk_size"] = max(content.num_tokens for content in contents)
    assert (tmp_path / "index.json").read_text() == json.dumps(theirs, sort_keys=True)
