"""The rows of minimind's PretrainDataset at two lengths, to the id, and its labels, shifted."""

import hashlib
import json
from typing import Any

import numpy as np
import pytest

from golden_data import golden
from rivers import ArrayRiver
from tokenriver.corpus import open_corpus
from tokenriver.loader import Loader
from tokenriver.types import IGNORE, Int64, River

BOS, EOS = 1, 2
# what minimind's tokenizer makes of its nine texts; the eighth spells <|im_end|> and <|endoftext|>, ids 2 and 0 there
DOCUMENTS = [
    [1185, 4909, 1356, 6218, 776, 1224, 369, 520, 263, 952, 933, 3739, 4629, 302],
    [750, 364, 110, 327, 1028, 311, 297, 1262, 118, 1851, 1669, 256, 460, 118, 49],
    [],
    [100],
    [4890, 5418, 382, 256, 1896, 599, 1612, 482, 1676, 4374, 376, 1682, 114, 109, 108, 256, 4544, 272, 266],
    [861, 1896, 3347, 302] * 60,
    [3138, 1623, 234, 3138, 2102, 234],
    [1633, 1283, 118, 256, 2, 376, 256, 0, 6348, 1525],
    [25, 123, 26],
]
SPELLED = 7
DIGESTS = {
    16: (
        "497dbce9027990dac642cd90c8ad6033200a7f7aca016784bd242e68ccc867b7",
        "b10cb438a438f550fda3a12a4427bc29b5b8ed8368d463bc539dbcf9394e525d",
    ),
    64: (
        "4579f9422375a535a83298195365d18e3120de2cdaa3a9655bc77855189f530a",
        "c699de308ae993aabce05db9a970943410535fc39bd4b86e40e3739a18ebe41a",
    ),
}


def _rows(river: River, seq_len: int) -> tuple[Int64, Int64]:
    """Inputs, and labels as minimind has them: its model drops the last prediction and the first label, which is
    where our last target, always ignored, and its first label, the first input, come from."""
    loader = Loader(river, seq_len=seq_len, global_batch=9, packing="minimind", order="sequential", prefetch=0)
    batch = loader.batch(0)
    assert (batch.targets[:, -1] == IGNORE).all()
    labels = np.concatenate([batch.input_ids[:, :1], batch.targets[:, :-1]], axis=1)
    return batch.input_ids, labels


def _as_upstream(labels: Int64) -> Int64:
    """minimind ignores id 0 wherever it stands, so also where a text spells it; here it is padding that is ignored."""
    spelled = labels[SPELLED] == 0
    assert spelled.sum() == 1
    labels[SPELLED, spelled] = IGNORE
    return labels


@pytest.mark.parametrize("seq_len", DIGESTS)
def test_rows_and_labels_without_the_reference_files(seq_len: int) -> None:
    framed = [[BOS, *ids, EOS] for ids in DOCUMENTS]
    river = ArrayRiver([i for ids in framed for i in ids], [len(ids) for ids in framed])
    inputs, labels = _rows(river, seq_len)
    found = [hashlib.sha256(array.astype("<i8").tobytes()).hexdigest() for array in (inputs, _as_upstream(labels))]
    assert tuple(found) == DIGESTS[seq_len]


@pytest.mark.parametrize("seq_len", DIGESTS)
def test_a_token_stream_gives_the_rows_of_the_dataset(seq_len: int) -> None:
    corpus = open_corpus(golden("minimind/tokenstream"))
    cases: dict[str, Any] = json.loads(golden("minimind/pretrain_cases.json").read_text())
    assert cases["encoded_ids_no_special"] == DOCUMENTS
    assert [corpus.document(i).tolist() for i in range(9)] == [[BOS, *ids, EOS] for ids in DOCUMENTS]
    rows = np.load(golden(f"minimind/pretrain_T{seq_len}.npz"))
    inputs, labels = _rows(corpus, seq_len)
    assert inputs.tolist() == rows["input_ids"].tolist()
    assert _as_upstream(labels).tolist() == rows["labels"].tolist()
    meta = json.loads(golden("minimind/tokenstream/meta.json").read_text())["padding_waste_and_truncation"]
    loader = Loader(corpus, seq_len=seq_len, global_batch=1, packing="minimind")
    assert loader.num_rows == meta[str(seq_len)]["rows"]
    assert loader.balance["cut"] == meta[str(seq_len)]["tokens_lost"]
