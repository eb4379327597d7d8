"""The fine-tuning batches of the HDF5 project without shuffling, as it takes those of its development file."""

from tokenriver.orders._packed import PackedRows
from tokenriver.types import Int64

SEEDED = False
RANKS = True
ROWS = True


def replay(shards: Int64, *, seq_len: int, batch: int, world_size: int, seed: int) -> PackedRows:
    """LimitError for a rank with fewer rows than a batch."""
    return PackedRows(int(shards.sum()), (seq_len, batch, world_size), shuffled=False)
