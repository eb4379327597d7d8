"""Registry of other loaders' orders: <name>.py repeats the batches of another project, exact to the id.

A module offers

    SEEDED    does the loader's `seed` matter?
    RANKS     does the original know ranks?
    ROWS      (if there, true) are its rows those of a file, seq_len ids each, the last of them without a target?
    replay(shards, *, seq_len, batch, world_size, seed)

for shards of the given numbers of ids, (n,) int64, and batches of `batch` rows a rank. What it returns has `num_rows`
(rows of one epoch over all ranks; of an order without epochs, the windows that it draws from), `balance` (ids of one
epoch by fate) and `starts(first, count, rank)`: the river position of each row's first id, (count, batch) int64, in the
original's calls first, first + 1, ... of one rank, counted from 0. It holds no state but what is worth keeping.
"""
