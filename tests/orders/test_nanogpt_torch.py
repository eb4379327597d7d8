"""nanoGPT's order against torch itself, and other loaders' orders under DataLoader's workers."""

import pytest
import torch
from torch.utils.data import DataLoader

from rivers import HugeRiver, ShardedRiver
from tokenriver import registry
from tokenriver.adapters.torch import TokenDataset
from tokenriver.loader import Loader

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*use of fork.. may lead to deadlocks:DeprecationWarning"),
]


@pytest.mark.parametrize("seed", [0, 1337, -1, 2**40 + 3])
@pytest.mark.parametrize("num_tokens", [9, 1000, 2**28 + 3, 2**28 + 8, 2**33])
def test_the_draws_of_torch(num_tokens: int, seed: int) -> None:
    if num_tokens > 2**28 and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13):
        pytest.skip("this torch draws from wide ranges by an older rule")
    generator = torch.Generator().manual_seed(seed + 1)
    expected = [torch.randint(num_tokens - 8, (12,), generator=generator).tolist() for _ in range(20)]
    loader = Loader(
        HugeRiver(num_tokens), seq_len=8, global_batch=24, rank=1, world_size=2, seed=seed, order="nanogpt", prefetch=0
    )
    assert [batch.sample_ids.tolist() for _, batch in zip(range(20), loader, strict=False)] == expected


@pytest.mark.parametrize("order", registry.names("orders"))
def test_workers_change_nothing(order: str) -> None:
    loader = Loader(ShardedRiver(300, 200), seq_len=4, global_batch=6, order=order, steps=30, prefetch=0)
    expected = [batch.input_ids.tolist() for batch in loader]
    loader.load_state_dict({**loader.state_dict(), "row": 0, "step": 0})
    got = DataLoader(TokenDataset(loader), batch_size=None, num_workers=2)
    assert [batch.input_ids.tolist() for batch in got] == expected
