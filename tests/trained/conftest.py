"""What tests that train a model share. Where torch is absent this file is read all the same, so it imports late."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _torch_made_ready() -> Iterator[None]:
    """One thread; and what torch loads with its first optimizer, which names a folder in the environment."""
    import torch
    from examples.gpt import GPT, Shape
    from examples.training import begin

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
        begin(GPT(Shape(257, 8, layers=1, heads=1, width=8)))
        yield
    torch.set_num_threads(threads)
