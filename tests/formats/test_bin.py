"""What the `.bin` formats share that no single format shows."""

from pathlib import Path
from types import ModuleType

import pytest

from small_corpora import index_bytes, shard_bytes
from tokenriver.formats import llmc, nanogpt, native


def test_reading_ahead_is_harmless_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(shard_bytes([i % 60000 for i in range(100_000)]))
    reader = llmc.open_reader(path)
    for start, stop in ((0, 100_000), (0, 1), (99_999, 100_000), (5, 5), (40_000, 70_001), (7, 3)):
        reader.read_ahead(start, stop)
    assert reader.read(59_999, 60_002).tolist() == [59_999, 0, 1]
    reader.close()
    reader.read_ahead(0, 10)


@pytest.mark.parametrize("module", [llmc, nanogpt, native], ids=lambda module: module.__name__)
def test_an_index_beside_a_shard_of_any_format_is_read(tmp_path: Path, module: ModuleType) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes([1, 0, 2, 0, 3, 0]) if module is nanogpt else shard_bytes([1, 2, 3]))
    bare = module.open_reader(path)
    assert (bare.doc_ends, bare.origins) == (None, None)
    (tmp_path / "a.docs").write_bytes(index_bytes([1, 0], 7, 3, carried=2))
    reader = module.open_reader(path)
    assert reader.doc_ends.tolist() == [1, 1]
    assert [column.tolist() for column in reader.origins] == [[7, 8], [3, 3]]
    assert bare.doc_ends is None, "what an open reader has found stays so"
    reader.close()
    assert (reader.doc_ends, reader.origins) == (None, None)
