"""nanoGPT's files: ids and nothing else."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from small_corpora import shard_bytes
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import nanogpt


def test_sixteen_bits_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(bytes([1, 0, 2, 0, 255, 255, 0, 1]))
    assert nanogpt.open_reader(path).ids.tolist() == [1, 2, 65535, 256]
    wide = nanogpt.open_reader(path, dtype="uint32")
    assert (wide.ids.tolist(), wide.dtype, wide.num_tokens) == ([131073, 16842751], np.dtype("u4"), 2)
    assert pickle.loads(pickle.dumps(wide)).ids.tolist() == wide.ids.tolist()
    assert wide.doc_ends is None


def test_a_torn_or_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    for data, dtype, multiple in ((b"", None, 2), (b"abc", None, 2), (b"abcdef", "uint32", 4)):
        path.write_bytes(data)
        with pytest.raises(
            FormatError, match=f"size: got {len(data)} bytes, expected a positive multiple of {multiple}"
        ):
            nanogpt.open_reader(path, dtype=dtype)
    with pytest.raises(InputError, match="dtype: got 'int32'"):
        nanogpt.open_reader(path, dtype="int32")


def test_what_is_written_is_the_ids(tmp_path: Path) -> None:
    path = tmp_path / "val.bin"
    with nanogpt.open_writer(path, dtype="uint32", num_tokens=3) as writer:
        writer.write(np.array([1, 70000, 2]), np.array([3]))
    assert path.read_bytes() == np.array([1, 70000, 2], "<u4").tobytes()
    with pytest.raises(LimitError, match="num_tokens: got 0"):
        nanogpt.open_writer(path, dtype="uint16", num_tokens=0)


def test_only_a_bin_file_of_no_other_kind_is_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"abcd")
    (tmp_path / "a.txt").write_bytes(b"abcd")
    (tmp_path / "b.bin").write_bytes(shard_bytes([1]))
    (tmp_path / "c.bin").mkdir()
    claims = {name: nanogpt.sniff(tmp_path / name) for name in ("a.bin", "a.txt", "b.bin", "c.bin", "none.bin")}
    assert claims == {"a.bin": True, "a.txt": False, "b.bin": False, "c.bin": False, "none.bin": False}
