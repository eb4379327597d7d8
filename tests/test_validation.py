import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenriver as tr
from rivers import ArrayRiver
from tokenriver.errors import InputError, LimitError
from tokenriver.mixing import Mixture
from tokenriver.validation import validation


@settings(max_examples=60)
@given(
    rows=st.integers(1, 40),
    seq_len=st.integers(1, 5),
    rest=st.integers(0, 4),
    micro_batch=st.integers(1, 9),
    world_size=st.integers(1, 6),
    shared=st.booleans(),
)
def test_every_row_once_each_time(
    rows: int, seq_len: int, rest: int, micro_batch: int, world_size: int, shared: bool
) -> None:
    river = ArrayRiver(rows * seq_len + 1 + rest % seq_len)
    options: dict[str, Any] = {"seq_len": seq_len, "micro_batch": micro_batch, "shared": shared, "prefetch": 0}
    loaders = [validation(river, rank=rank, world_size=world_size, **options) for rank in range(world_size)]
    for _ in range(3):
        passes = [list(loader) for loader in loaders]
        assert len({len(batches) for batches in passes}) == 1
        assert {batch.input_ids.shape for batches in passes for batch in batches} == {(micro_batch, seq_len)}
        steps = [[batches[step] for batches in passes] for step in range(len(passes[0]))]
        seen = [
            [sample for batch in step for sample in batch.sample_ids.tolist() if sample >= 0]
            for step in ([step[:1] for step in steps] if shared else steps)
        ]
        assert [sample for step in seen for sample in step] == list(range(rows))
        # no more batches than the rows need
        assert len(steps) == -(-rows // (micro_batch * (1 if shared else world_size)))
        targets = sum(batch.num_targets for batches in passes for batch in batches)
        assert targets == rows * seq_len * (world_size if shared else 1)
        assert targets == sum(int(batch.loss_mask.sum()) for batches in passes for batch in batches)
        if shared:
            assert len({str([batch.input_ids.tolist() for batch in batches]) for batches in passes}) == 1


def test_it_goes_on_where_it_was_stopped() -> None:
    river = ArrayRiver(4 * 11 + 1)
    whole = [batch.sample_ids.tolist() for batch in validation(river, seq_len=4, micro_batch=2)]
    for batch in validation(river, seq_len=4, micro_batch=2):
        loader = validation(river, seq_len=4, micro_batch=2)
        loader.load_state_dict(batch.state)
        assert [rest.sample_ids.tolist() for rest in loader] == whole[batch.step + 1 :]


def test_other_packings_and_mixtures() -> None:
    river = ArrayRiver(20, [3, 8, 2, 7])
    loader = validation(river, seq_len=8, micro_batch=3, packing="document")
    assert [batch.num_targets for batch in loader] == [2 + 7 + 1, 6]
    mixture = Mixture({"a": (ArrayRiver(9), 1), "b": (ArrayRiver(17), 1)}, exhausted="renormalise")
    batches = list(validation(mixture, seq_len=4, micro_batch=4))
    assert sum(batch.num_targets for batch in batches) == 6 * 4
    with pytest.raises(InputError, match="epochs: got a mixture that repeats its sources for ever"):
        validation(Mixture({"a": (river, 1)}), seq_len=4, micro_batch=4)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match=r"^micro_batch: got 0"):
        validation(ArrayRiver(9), seq_len=4, micro_batch=0)
    with pytest.raises(InputError, match=r"^rank, world_size: got 2, 2"):
        validation(ArrayRiver(9), seq_len=4, micro_batch=1, rank=2, world_size=2)
    with pytest.raises(LimitError, match=r"^seq_len: got 9, which needs at least 10 ids, and the corpus has 9"):
        validation(ArrayRiver(9), seq_len=9, micro_batch=1)


def test_the_example_of_the_document() -> None:
    document = Path(__file__).resolve().parent.parent / "docs" / "validation.md"
    (example,) = re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    lengths = [10] * 50
    names: dict[str, Any] = {"tr": tr, "corpus": ArrayRiver(500, lengths), "losses_of": lambda batch: batch.loss_mask}
    exec(example, names)
    assert names["loss"] == 1
    assert names["count"] == (500 - 1) // 64 * 64
