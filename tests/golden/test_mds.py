"""Sets that mosaicml-streaming's own writer made, read exactly and written byte for byte; their facts again without
the files."""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from golden_data import golden
from made_contents import made_content, write_shards
from open_shards import all_ends, all_ids
from tokenriver.errors import FormatError
from tokenriver.formats import mds

FIXED = [
    [18726, 102589, 66635, 65034, 37266, 64946, 124082, 30293],
    [98508, 1864, 40247, 119691, 111744, 11007, 108124, 108366],
    [58135, 47182, 125739, 121974, 86857, 51228, 26961, 120104],
    [34473, 71330, 86527, 30798, 40421, 95091, 25319, 86494],
    [121148, 87753, 82877, 59488, 124138, 28458, 45639, 82204],
]
FIXED_SHA256 = "0adf7efc20cd150ca0a27c1dfa022898669529d5bb557a31a95540a5af2085e6"
INDEX_SHA256 = "1741531de143ba0d5ec6ab61de5b5300de37acf729222eb08493cfb4caf0ba5d"


def test_the_originals_bytes_are_ours(tmp_path: Path) -> None:
    ids = [i for doc in FIXED for i in doc]
    (written,) = write_shards(mds, tmp_path, [made_content(ids, [8, 16, 24, 32, 40], "int32")], "int32", layout="fixed")
    assert written.sha256 == FIXED_SHA256
    assert hashlib.sha256((tmp_path / "index.json").read_bytes()).hexdigest() == INDEX_SHA256


def test_they_are_the_files() -> None:
    folder = golden("mds/fixed_int32")
    assert hashlib.sha256((folder / "shard.00000.mds").read_bytes()).hexdigest() == FIXED_SHA256
    assert hashlib.sha256((folder / "index.json").read_bytes()).hexdigest() == INDEX_SHA256


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("fixed_uint16", None), ("fixed_int32", None), ("var_ndarray", None), ("bytes_and_str", "int64")],
)
def test_the_original_sets_are_read(name: str, dtype: str | None) -> None:
    folder, case = golden(f"mds/{name}"), json.loads(golden("mds/mds_cases.json").read_text())[name]
    docs = []
    for sample in case["samples"]:
        ids = sample["tokens"] if isinstance(sample, dict) and "tokens" in sample else sample
        if isinstance(sample, dict) and "tokens_hex" in sample:
            ids = np.frombuffer(bytes.fromhex(sample["tokens_hex"]), "<i8").tolist()
        docs.append(ids)
    assert mds.sniff(folder)
    found = mds.find(folder)
    read: list[list[int]] = []
    for shard in found:
        reader = mds.open_reader(shard.path, dtype=dtype)
        ids, begin = all_ids(reader), 0
        for end in all_ends(reader):
            read.append(ids[begin:end])
            begin = end
    assert read == docs
    assert list(mds.audit(folder)) == []


def test_the_compressed_set_is_the_raw_one() -> None:
    """Both were made of the same samples."""
    (packed,) = mds.find(golden("mds/zstd"))
    (raw,) = mds.find(golden("mds/bytes_and_str"))
    one, other = (mds.open_reader(shard.path, dtype="int64") for shard in (packed, raw))
    assert (all_ids(one), all_ends(one)) == (all_ids(other), all_ends(other))
    assert packed.path.name.endswith(".zstd")
    assert list(mds.audit(golden("mds/zstd"))) == []


def test_arrays_of_several_dtypes_are_refused() -> None:
    (shard,) = mds.find(golden("mds/dynamic_ndarray"))
    with pytest.raises(
        FormatError, match="sample 2 at byte 273: got 16, expected the dtype code 65, one dtype for all"
    ):
        mds.open_reader(shard.path)


def test_the_originals_sample_of_an_array() -> None:
    """The last sample of dynamic_ndarray, without its dtype byte, is ours: five uint16 ids."""
    sample = struct.pack("<I", 12) + b"\x04\x05" + bytes.fromhex("8ea14a90d15e993a2c4c")
    data = golden("mds/dynamic_ndarray/shard.00000.mds").read_bytes()
    assert data[273:] == struct.pack("<I", 13) + b"\x10" + sample[4:]
