"""Files that datatrove wrote, shuffled, merged and split: read in full, the unshuffled one written byte for byte."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from golden_data import golden
from made_contents import made_content, made_target
from tokenriver.errors import FormatError
from tokenriver.formats import nanotron

FOLDERS = {"unshuffled": 1, "doc_shuffled": 1, "chunk_shuffled": 1, "max_tokens": 3, "loss": 1, "merged": 2}


def _cases() -> dict[str, Any]:
    cases: dict[str, Any] = json.loads(golden("datatrove/datatrove_cases.json").read_text())
    return cases


@pytest.mark.parametrize("folder", FOLDERS)
def test_ids_and_ends_are_datatroves(folder: str) -> None:
    case, path = _cases()[folder], golden(f"datatrove/{folder}")
    assert nanotron.sniff(path)
    found = nanotron.find(path)
    assert len(found) == FOLDERS[folder]
    full = [name for name in sorted(case) if name.endswith(".ds") and case[name]["bytes"]]
    assert [shard.path.name for shard in found] == full
    for shard in found:
        ids = case[shard.path.name]["tokens_uint16le"]
        ends = case[f"{shard.path.name}.index"]["doc_ends_uint64le"]
        assert (shard.dtype, shard.num_tokens, shard.num_documents) == ("uint16", len(ids), len(ends))
        reader = nanotron.open_reader(shard.path)
        assert reader.doc_ends is not None
        assert (reader.read(0, len(ids)).tolist(), reader.doc_ends.tolist()) == (ids, ends)


def test_the_context_shufflers_file_needs_a_dtype() -> None:
    path = golden("datatrove/context_shuffled/00000_unshuffled.ds")
    with pytest.raises(FormatError, match="give dtype"):
        nanotron.open_reader(path)
    reader = nanotron.open_reader(path, dtype="uint16")
    ids = _cases()["context_shuffled"]["00000_unshuffled.ds"]["tokens_uint16le"]
    assert (reader.read(0, 40).tolist(), reader.doc_ends) == (ids, None)


def test_the_unshuffled_file_is_written_byte_for_byte(tmp_path: Path) -> None:
    case, folder = _cases()["unshuffled"], golden("datatrove/unshuffled")
    content = made_content(
        case["00000_unshuffled.ds"]["tokens_uint16le"], case["00000_unshuffled.ds.index"]["doc_ends_uint64le"]
    )
    path = tmp_path / "00000_unshuffled.ds"
    written = nanotron.write(path, content, replace(made_target(), tokenizer="TOKENIZER_PATH"))
    assert sorted(file.path.name for file in written) == sorted(case)
    for file in written:
        assert file.path.read_bytes() == (folder / file.path.name).read_bytes()
        assert file.num_bytes == case[file.path.name]["bytes"]
