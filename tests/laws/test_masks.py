"""Targets ignored by choice: those that begin a document and those that are the end id, in every packing; nothing else
of a run is another."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rivers import ArrayRiver
from small_builds import EOS as SMALL_EOS
from small_builds import small_build, some_texts, write_rows
from tokenriver import registry
from tokenriver.batch import Batch
from tokenriver.corpus import open_corpus
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.loader import Loader
from tokenriver.mixing import Mixture
from tokenriver.types import IGNORE, Int64, River

EOS = 7


class EndedRiver(ArrayRiver):
    """Ids that say where they are (1,000 + position), but for documents that end with the end id."""

    eos_id = EOS

    def __init__(self, lengths: list[int], ended: list[bool]) -> None:
        ids: list[int] = []
        for length, end in zip(lengths, ended, strict=True):
            here = [1000 + len(ids) + at for at in range(length)]
            ids += [*here[:-1], EOS] if end and here else here
        super().__init__(ids, lengths)


class SaysMore(ArrayRiver):
    """A river of so many documents that nobody wants to send their ends along."""

    def doc_ends(self) -> Int64:
        return np.arange(1, 100_001, dtype=np.int64)


def firsts(river: ArrayRiver) -> set[int]:
    """Ids that begin a document: they are unique, as no document of one id is the end id alone in these tests."""
    assert river.edges is not None
    return {int(river.ids[at]) for at in river.edges[:-1] if at < river.num_tokens}


@pytest.mark.parametrize("name", registry.names("packing"))
@settings(max_examples=50, deadline=None)
@given(
    documents=st.lists(
        st.tuples(st.integers(0, 9).map(lambda n: n + (n == 1)), st.booleans()), min_size=1, max_size=12
    ),
    seq_len=st.integers(2, 7),
    mask=st.tuples(st.booleans(), st.booleans()),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2)),
)
def test_only_what_was_asked_is_ignored(
    name: str, documents: list[tuple[int, bool]], seq_len: int, mask: tuple[bool, bool], shape: tuple[int, int, int]
) -> None:
    river = EndedRiver([length for length, _ in documents], [end for _, end in documents])
    batch, micro, world_size = shape
    options: dict[str, Any] = {"seq_len": seq_len, "packing": name, "micro_batch": micro, "prefetch": 0}
    options |= {"rank": world_size - 1, "world_size": world_size}
    try:
        plain = Loader(river, global_batch=batch, **options)
    except LimitError:
        return
    masked = Loader(river, global_batch=batch, mask_first=mask[0], mask_eos=mask[1], **options)
    for found, before in zip(masked, plain, strict=True):
        assert np.array_equal(found.input_ids, before.input_ids)
        assert found.state == before.state
        wanted = [
            [IGNORE if (mask[0] and i in firsts(river)) or (mask[1] and i == EOS) else i for i in row]
            for row in before.targets.tolist()
        ]
        assert found.targets.tolist() == wanted
        assert found.num_targets == int(found.loss_mask.sum())
        assert found.loss_mask.tolist() == [[i != IGNORE for i in row] for row in wanted]


def test_windows_by_hand() -> None:
    river = EndedRiver([3, 4, 0, 3], [True] * 4)
    made = Loader(
        river, seq_len=3, global_batch=3, order="sequential", mask_first=True, mask_eos=True, prefetch=0
    ).batch(0)
    assert made.input_ids.tolist() == [[1000, 1001, EOS], [1003, 1004, 1005], [EOS, 1007, 1008]]
    assert made.targets.tolist() == [[1001, IGNORE, IGNORE], [1004, 1005, IGNORE], [IGNORE, 1008, IGNORE]]
    assert made.num_targets == 4


def test_a_mixture_masks_where_its_sources_meet() -> None:
    sources: dict[str, tuple[River, float]] = {
        "a": (EndedRiver([4, 5], [True, True]), 1.0),
        "b": (EndedRiver([6, 3], [True, True]), 1.0),
    }
    options: dict[str, Any] = {"seq_len": 8, "global_batch": 2, "prefetch": 0, "steps": 2}
    made = Loader(Mixture(sources, unit="rows"), mask_first=True, mask_eos=True, **options).batch(0)
    by_source = dict(zip(made.source_ids.tolist(), made.targets.tolist(), strict=True))
    assert by_source[0] == [1001, 1002, *[IGNORE] * 2, 1005, 1006, 1007, IGNORE]
    assert by_source[1] == [*range(1001, 1005), *[IGNORE] * 2, 1007, IGNORE]


def test_a_masked_batch_travels_without_the_ends_of_all_documents() -> None:
    river = SaysMore(5, [5])
    made = Loader(river, seq_len=4, global_batch=1, mask_first=True, prefetch=0).batch(0)
    assert isinstance(made, Batch)
    assert made.num_targets == 0
    data = pickle.dumps(made)
    assert len(data) < 5_000
    assert pickle.loads(data).targets.tolist() == made.targets.tolist()


def test_a_corpus_knows_its_end_id(tmp_path: Path) -> None:
    small_build(write_rows(tmp_path / "a.jsonl", some_texts(30)), tmp_path / "corpus")
    ours = open_corpus(tmp_path / "corpus")
    assert ours.eos_id == SMALL_EOS
    made = Loader(ours, seq_len=32, global_batch=4, mask_eos=True, prefetch=0).batch(0)
    plain = Loader(ours, seq_len=32, global_batch=4, prefetch=0).batch(0)
    assert (made.loss_mask == (plain.targets != SMALL_EOS)).all()
    assert 0 < made.num_targets < plain.num_targets
    np.array([3, 9, 9, 4, 5, 9], np.uint16).tofile(tmp_path / "train.bin")
    assert open_corpus(tmp_path / "train.bin").eos_id is None
    assert open_corpus(tmp_path / "train.bin", eos_id=9).eos_id == 9
    assert open_corpus(tmp_path / "train.bin", tokenizer="byte").eos_id == 256


def test_what_is_not_known_cannot_be_masked() -> None:
    options: dict[str, Any] = {"seq_len": 3, "global_batch": 1}
    with pytest.raises(FormatError, match="mask_first: got a corpus without document bounds"):
        Loader(ArrayRiver(9), mask_first=True, **options)
    with pytest.raises(InputError, match=r"mask_eos: got \['None'\] for the id that ends texts"):
        Loader(ArrayRiver(9, [9]), mask_eos=True, **options)
    other = EndedRiver([9], [True])
    other.eos_id = 8
    mixture = Mixture({"a": (EndedRiver([9], [True]), 1.0), "b": (other, 1.0)})
    with pytest.raises(InputError, match=r"mask_eos: got \['7', '8'\]"):
        Loader(mixture, mask_eos=True, steps=1, **options)
