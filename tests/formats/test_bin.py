"""What the `.bin` formats share that no single format shows."""

from pathlib import Path

import pytest

from small_corpora import shard_bytes
from tokenriver.formats import llmc


def test_reading_ahead_is_harmless_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(shard_bytes([i % 60000 for i in range(100_000)]))
    reader = llmc.open_reader(path)
    for start, stop in ((0, 100_000), (0, 1), (99_999, 100_000), (5, 5), (40_000, 70_001), (7, 3)):
        reader.read_ahead(start, stop)
    assert reader.ids[59_999:60_002].tolist() == [59_999, 0, 1]
    reader.close()
    reader.read_ahead(0, 10)


def test_an_index_is_asked_only_of_a_format_that_has_one(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(shard_bytes([1]))
    with pytest.raises(AssertionError, match="has documents"):
        llmc.open_reader(path)._documents()
