"""A fixed pass for validation: every row once, in file order, as many batches of one shape on all ranks.

loader = validation(corpus, seq_len=1024, micro_batch=32, rank=rank, world_size=world_size)
for step in range(num_steps):
    ...
    if step % 1000 == 0:
        for batch in loader:        # the same rows each time
            ...                     # sum losses and batch.num_targets over batches and ranks, then divide
"""

from tokenriver.layout import whole
from tokenriver.loader import Loader
from tokenriver.mixing import Mixture
from tokenriver.sampler import check_rank
from tokenriver.types import River


def validation(
    corpus: River | Mixture,
    *,
    seq_len: int,
    micro_batch: int,
    shared: bool = False,
    packing: str = "concat",
    overflow: str = "split",
    rank: int = 0,
    world_size: int = 1,
    prefetch: int = 2,
) -> Loader:
    """A Loader of one epoch in file order, in batches of micro_batch rows. The ranks divide the rows, or, if `shared`,
    each sees all of them. The end is filled with rows without targets, even of fewer rows than one batch;
    `Batch.num_targets` has the true count. Each loop over it is the same pass. Raises what Loader raises."""
    rank, world_size = (0, 1) if shared else check_rank(rank, world_size)
    whole("micro_batch", micro_batch, 1)

    def load(global_batch: int) -> Loader:
        return Loader(
            corpus,
            seq_len=seq_len,
            global_batch=global_batch,
            micro_batch=micro_batch,
            packing=packing,
            overflow=overflow,
            order="sequential",
            rank=rank,
            world_size=world_size,
            prefetch=prefetch,
        )

    return load(min(micro_batch * world_size, load(1).num_rows))
