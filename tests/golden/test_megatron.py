"""Sets that Megatron's own module and datatrove wrote: read in full, and their indexes written again byte for byte."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden_data import golden
from made_contents import made_content, made_target
from tokenriver.formats import _megatron_index, megatron
from tokenriver.types import Int64

SETS = ("gpt2_uint16", "llama_int32", "multimodal_uint16", "add_document", "merged")


def _case(name: str) -> dict[str, Any]:
    cases: dict[str, Any] = json.loads(golden("megatron/megatron_cases.json").read_text())
    return dict(cases[name])


@pytest.mark.parametrize("name", SETS)
def test_sequences_and_documents_are_megatrons(name: str) -> None:
    case, path = _case(name), golden(f"megatron/{name}.bin")
    reader = megatron.open_reader(path)
    assert reader.read(0, reader.num_tokens).tolist() == [i for row in case["sequences"] for i in row]
    assert reader.dtype == np.dtype("int32" if name == "llama_int32" else "uint16")
    ends = np.concatenate([[0], np.cumsum(case["sequence_lengths"])])[case["document_indices"][1:]]
    assert reader.doc_ends is not None
    assert reader.doc_ends.tolist() == ends.tolist()
    (shard,) = megatron.find(path.with_suffix(""))
    assert (shard.num_tokens, shard.num_documents) == (sum(case["sequence_lengths"]), case["document_count_field"] - 1)


@pytest.mark.parametrize("name", SETS)
def test_indexes_are_written_byte_for_byte(name: str) -> None:
    case = _case(name)

    def column(key: str, first: int) -> Iterator[Int64]:
        values = np.array(case[key][first:], np.int64)
        yield from np.array_split(values, 3)

    layout = _megatron_index.Layout(
        "int32" if name == "llama_int32" else "uint16",
        case["sequence_count"],
        case["document_count_field"] - 1,
        lambda: column("sequence_lengths", 0),
        lambda: column("document_indices", 1),
    )
    data = b"".join(map(bytes, _megatron_index.index_pieces(layout)))
    modes = case.get("sequence_modes", [])
    assert hashlib.sha256(data + bytes(modes)).hexdigest() == case["idx_sha256"]
    assert data + bytes(modes) == golden(f"megatron/{name}.idx").read_bytes()


def test_the_codes_are_megatrons() -> None:
    codes = json.loads(golden("megatron/megatron_cases.json").read_text())["dtype_codes"]
    assert {name: code for code, name in (_megatron_index.CODES | _megatron_index.FLOATS).items()} == codes


def test_datatroves_set_is_read_and_written_byte_for_byte(tmp_path: Path) -> None:
    path = golden("datatrove/megatron/00000_tokens.bin")
    cases = json.loads(golden("datatrove/datatrove_cases.json").read_text())["unshuffled"]
    ids = cases["00000_unshuffled.ds"]["tokens_uint16le"]
    ends = cases["00000_unshuffled.ds.index"]["doc_ends_uint64le"]
    reader = megatron.open_reader(path)
    assert reader.doc_ends is not None
    assert (reader.read(0, 47).tolist(), reader.doc_ends.tolist()) == (ids, ends)
    data, index = megatron.write(tmp_path / "00000_tokens.bin", made_content(ids, ends), made_target())
    assert data.path.read_bytes() == path.read_bytes()
    assert index.path.read_bytes() == path.with_suffix(".idx").read_bytes()
