"""Shards that llm.c's own writer made, read exactly; and their facts again without the files.

In the toy shards an id is shard * 10000 + position, so that an id tells where it came from.
"""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from golden_data import golden
from made_contents import made_content, made_target
from small_corpora import ids_of, shard_bytes
from tokenriver.corpus import open_corpus
from tokenriver.formats import llmc
from tokenriver.verify import verify

TOY = {"toy_000.bin": (0, 1000), "toy_001.bin": (10000, 1537), "toy_002.bin": (20000, 801)}
EDGE = {"edge_000.bin": (30000, 65), "edge_001.bin": (40000, 128), "edge_002.bin": (50000, 129)}
DIGESTS = {
    "edge_000.bin": "3ff1ff9a5b96995510eb37539187a47566c391b2eadc53da10e400e47ce47f55",
    "edge_001.bin": "7cea40fdbd8a292d4bd9f1de35bc2281f6ab441944766db01ddfca3d1f1155c3",
    "edge_002.bin": "4166364372a9539eeeb44e1e7e3a71d1509036b9e11c42a364238fee1dd3b0c1",
    "toy_000.bin": "7b649e6650c473f474c985762ef4770499701709900efcf05683c09c4425fc3e",
    "toy_001.bin": "c262278cc5f00d8ded6b4d22b41298e15cdebe3268a6c63fae92c0be132d4e5d",
    "toy_002.bin": "b4fc94ac1d0741f58d3a03750bcc39baa7c94a51e67ab22d17e087112ca3433f",
}


@pytest.mark.parametrize("name", [*TOY, *EDGE])
def test_the_original_writers_bytes_are_ours(tmp_path: Path, name: str) -> None:
    first, count = (TOY | EDGE)[name]
    ids = np.arange(first, first + count)
    llmc.write(tmp_path / name, made_content(ids, block=100), made_target())
    data = (tmp_path / name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == DIGESTS[name]
    assert data == shard_bytes(ids.tolist())


@pytest.mark.parametrize("name", [*TOY, *EDGE])
def test_the_original_shards_are_read(name: str) -> None:
    path = golden(f"llmc/shards/{name}")
    first, count = (TOY | EDGE)[name]
    assert ids_of(llmc.open_reader(path)) == list(range(first, first + count))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == DIGESTS[name]
    assert verify(path) == []


def test_the_llama_flavour_is_read() -> None:
    reader = llmc.open_reader(golden("llmc/shards/llama3_000.bin"))
    ids = np.load(golden("llmc/shards/llama3_000.tokens.npy"), allow_pickle=False)
    assert reader.dtype == np.dtype("uint32")
    assert ids_of(reader) == ids.tolist()
    assert int(ids.max()) > 65535


def test_windows_of_the_toy_shards_are_the_original_loaders() -> None:
    """Every window that llm.c's sequential loader (one rank) served lies in one shard: x and y are its two ends."""
    served = np.load(golden("llmc/toy_seq_w1_r0.npz"), allow_pickle=False)
    x, y = served["x"].astype(np.int64), served["y"].astype(np.int64)
    corpus = open_corpus(str(golden("llmc/shards") / "toy_*.bin"))
    begins = {shard.path.name: begin for shard, begin in zip(corpus.shards, (0, 1000, 2537), strict=True)}
    width = x[0].size + 1
    starts = []
    for batch in x.reshape(len(x), -1):
        shard, position = divmod(int(batch[0]), 10000)
        starts.append(begins[f"toy_{shard:03d}.bin"] + position)
    out = np.empty((len(starts), width), np.int64)
    corpus.gather(np.array(starts), width, out)
    assert (out[:, :-1] == x.reshape(len(x), -1)).all()
    assert (out[:, 1:] == y.reshape(len(y), -1)).all()


def test_the_toy_shards_as_one_river() -> None:
    corpus = open_corpus(str(golden("llmc/shards") / "toy_*.bin"))
    assert (corpus.num_tokens, len(corpus.shards)) == (3338, 3)
    expected = [first + i for first, count in TOY.values() for i in range(count)]
    assert corpus.read(0, 3338).tolist() == expected
    assert corpus.read(995, 1005).tolist() == [995, 996, 997, 998, 999, 10000, 10001, 10002, 10003, 10004]
