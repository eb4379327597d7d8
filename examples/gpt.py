"""A small GPT whose attention can stay inside documents."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from tokenriver import IGNORE


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a model is."""

    vocab_size: int
    seq_len: int
    """The longest row that it can see."""
    layers: int = 3
    heads: int = 4
    width: int = 96


class Block(nn.Module):
    """Attention and a small network, each added to what it was given."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.before, self.between = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.qkv, self.out = nn.Linear(shape.width, 3 * shape.width), nn.Linear(shape.width, shape.width)
        self.up, self.down = nn.Linear(shape.width, 4 * shape.width), nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        rows, length, width = x.shape
        parts = self.qkv(self.before(x)).view(rows, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class GPT(nn.Module):
    """ids -> the scores of each next id."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.shape = shape
        self.ids, self.places = nn.Embedding(shape.vocab_size, shape.width), nn.Embedding(shape.seq_len, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.last = nn.LayerNorm(shape.width)
        for weights in (self.ids.weight, self.places.weight):
            nn.init.normal_(weights, std=0.02)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        """(B, T) ids -> (B, T, vocabulary). With `positions` (B, T), which restart at 0 where a sequence begins, no
        position sees another sequence; without them every position sees all of its row before it."""
        mask = None
        if positions is None:
            places = torch.arange(ids.shape[1]).expand_as(ids)
        else:
            places, mask = positions, inside_sequences(positions)
        x = self.ids(ids) + self.places(places)
        for block in self.blocks:
            x = block(x, mask)
        scores: torch.Tensor = functional.linear(self.last(x), self.ids.weight)
        return scores


def inside_sequences(positions: torch.Tensor) -> torch.Tensor:
    """(B, 1, T, T) bool: may the second position be seen from the first? Not later ones, nor those of other sequences.
    For a model on a GPU cu_seqlens and variable-length attention do the same without the matrix."""
    sequences = (positions == 0).cumsum(1)
    same = sequences[:, :, None] == sequences[:, None, :]
    return torch.tril(same)[:, None]


def losses(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """(B, T): loss of each position, 0 where the target is IGNORE."""
    flat = functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="none")
    return flat.view_as(targets)
