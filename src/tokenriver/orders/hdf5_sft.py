"""The fine-tuning batches of the HDF5 project, shuffling: each rank shuffles its own rows at the start of each epoch,
in place, with numpy's generator of seed 1234 + rank.

How many words a shuffle takes depends on the words, so a later epoch is reached by doing the shuffles before it.
"""

from tokenriver.orders._packed import PackedRows
from tokenriver.types import Int64

SEEDED = False
RANKS = True
ROWS = True


def replay(shards: Int64, *, seq_len: int, batch: int, world_size: int, seed: int) -> PackedRows:
    """LimitError for a rank with fewer rows than a batch."""
    return PackedRows(int(shards.sum()), (seq_len, batch, world_size), shuffled=True)
