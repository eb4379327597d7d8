import numpy as np
import pytest

from rivers import ArrayRiver
from tokenriver.errors import InputError, LimitError
from tokenriver.packing.concat import pack


def test_windows_by_hand() -> None:
    rows = pack(ArrayRiver(11), seq_len=3)
    assert len(rows) == 3
    line, start, stop = rows.spans(np.array([2, 0]), 0)
    assert (line.tolist(), start.tolist(), stop.tolist()) == ([0, 1], [6, 0], [10, 4])
    assert rows.balance == {"river": 11, "served": 10, "unused": 1}
    assert rows.tag == "concat T=3"


def test_the_only_window_and_one_id_too_few() -> None:
    assert pack(ArrayRiver(11), seq_len=10).starts(np.array([0]), np.array([0])).tolist() == [0]
    with pytest.raises(LimitError, match="got 10, which needs at least 11 ids, and the corpus has 10"):
        pack(ArrayRiver(10), seq_len=10)


def test_windows_run_across_documents_and_nothing_else_can_be_asked() -> None:
    assert len(pack(ArrayRiver(11, [5, 6]), seq_len=5)) == 2
    with pytest.raises(InputError, match="overflow: got 'drop', expected 'split'"):
        pack(ArrayRiver(11), seq_len=3, overflow="drop")


@pytest.mark.parametrize("num_tokens", range(2, 40))
@pytest.mark.parametrize("seq_len", [1, 2, 3, 7])
def test_every_shift_leaves_all_rows_inside_the_river(num_tokens: int, seq_len: int) -> None:
    if num_tokens <= seq_len:
        return
    rows = pack(ArrayRiver(num_tokens), seq_len=seq_len, phase_shift=True, seed=5)
    plain = pack(ArrayRiver(num_tokens), seq_len=seq_len)
    assert len(rows) == len(plain)
    every = np.arange(len(rows))
    shifts = set()
    for epoch in range(100):
        starts = rows.starts(every, np.full(len(rows), epoch))
        assert np.array_equal(rows.spans(every, epoch)[1], starts)
        assert np.array_equal(np.diff(starts), np.full(len(rows) - 1, seq_len))
        assert starts[0] >= 0
        assert starts[-1] + seq_len + 1 <= num_tokens
        shifts.add(int(starts[0]))
    assert shifts == set(range((num_tokens - 1) % seq_len + 1))


def test_shift_belongs_to_the_epoch_and_the_seed() -> None:
    rows = [pack(ArrayRiver(1100), seq_len=100, phase_shift=True, seed=seed) for seed in (1, 2)]
    assert rows[0].tag == "concat T=100 phase-shift"
    both = rows[0].starts(np.array([0, 0, 1]), np.array([3, 4, 3]))
    assert both.tolist() == [rows[0].shift(3), rows[0].shift(4), rows[0].shift(3) + 100]
    assert [rows[0].shift(e) for e in range(8)] != [rows[1].shift(e) for e in range(8)]
