"""What docs/other-loaders.md says of other loaders' orders is what they do."""

import re
from pathlib import Path
from typing import Any

import pytest

import tokenriver as tr
from rivers import ArrayRiver, ShardedRiver
from tokenriver import registry

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "other-loaders.md").read_text(encoding="utf-8")
ROWS = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in TEXT.splitlines() if line.startswith("| `")]


def test_the_example() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {"tr": tr, "corpus": ShardedRiver(1000, 1537, 801)}
    exec(example, names)
    assert len(list(names["loader"])) == 100
    assert names["loader"].micros_per_step == 1


def test_the_table_names_every_order() -> None:
    assert sorted(row[0] for row in ROWS if row[0] != "order") == registry.names("orders")
    for name, _, _, seed, ranks in ROWS[-len(registry.names("orders")) :]:
        module = registry.load("orders", name)
        assert (not seed.startswith("unused")) == module.SEEDED
        assert (ranks == "any") == module.RANKS


@pytest.mark.parametrize("order", registry.names("orders"))
def test_what_is_refused(order: str) -> None:
    """Each of these, and nothing of it without it."""
    river = ArrayRiver(1000, [1000])
    good: dict[str, Any] = {"seq_len": 4, "global_batch": 2, "order": order, "prefetch": 0}
    tr.Loader(river, **good, epochs=None)
    bad: list[tuple[str, dict[str, Any]]] = [
        ("packing", {"packing": "document"}),
        ("phase_shift", {"phase_shift": True}),
        ("epochs", {"epochs": 2}),
        ("global_batch", {"micro_batch": 3}),
    ]
    for name, options in bad:
        assert name in TEXT.partition("**Refused:**")[2]
        with pytest.raises(tr.InputError, match=f"^{name}"):
            tr.Loader(river, **good | options)
    with pytest.raises(tr.InputError, match="mixture"):
        tr.Loader(tr.Mixture({"a": (river, 1.0)}), **good)
