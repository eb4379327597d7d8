"""A model that keeps to cu_seqlens, position_ids and loss_mask learns from packed rows what it learns from each
document alone: its loss, and the gradient of its weights, are the same."""

import numpy as np
import pytest
from numpy.typing import NDArray

from rivers import ArrayRiver
from tokenriver.loader import Loader
from tokenriver.types import IGNORE, Bools, Int64

Floats = NDArray[np.float64]

VOCABULARY, WIDTH, SEQ_LEN = 19, 6, 24
LENGTHS = [5, 1, 25, 12, 2, 2, 17, 9, 25, 3, 1, 14, 8, 24, 6]


class Model:
    """One head of causal attention over embeddings of ids and positions."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.ids, self.places = random.normal(size=(VOCABULARY, WIDTH)), random.normal(size=(SEQ_LEN, WIDTH))
        self.q, self.k, self.v = random.normal(size=(3, WIDTH, WIDTH))
        self.out = random.normal(size=(WIDTH, VOCABULARY))

    def losses(self, ids: Int64, places: Int64, targets: Int64, edges: Int64) -> tuple[Floats, Floats]:
        """(loss of each position, gradient of the output weights of their sum); attention stays between the edges."""
        x = self.ids[ids] + self.places[places]
        y = np.empty_like(x)
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            part = x[begin:end]
            scores = (part @ self.q) @ (part @ self.k).T
            scores[np.triu_indices(end - begin, 1)] = -np.inf
            weights = np.exp(scores - scores.max(1, keepdims=True))
            y[begin:end] = weights / weights.sum(1, keepdims=True) @ (part @ self.v)
        logits = y @ self.out
        logits -= logits.max(1, keepdims=True)
        chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        lines, there = np.arange(len(ids)), targets != IGNORE
        errors = chances.copy()
        errors[lines, np.maximum(targets, 0)] -= 1
        return np.where(there, -np.log(chances[lines, np.maximum(targets, 0)]), 0), y.T @ (errors * there[:, None])


@pytest.mark.parametrize("packing", ["best_fit", "document"])
def test_the_loss_of_packed_rows_is_that_of_their_documents(packing: str) -> None:
    ids = np.random.default_rng(1).integers(0, VOCABULARY, sum(LENGTHS)).tolist()
    river, model = ArrayRiver(ids, LENGTHS), Model()
    expected, gradient, targets = 0.0, np.zeros((WIDTH, VOCABULARY)), 0
    for number in np.flatnonzero(np.array(LENGTHS) > 1).tolist():
        document = river.ids[slice(*river.doc_bounds(number))]
        places = np.arange(len(document) - 1)
        losses, part = model.losses(document[:-1], places, document[1:], np.array([0, len(places)]))
        expected, gradient, targets = expected + losses.sum(), gradient + part, targets + len(places)
    found, summed, masked, seen = 0.0, np.zeros_like(gradient), 0, 0
    for batch in Loader(river, seq_len=SEQ_LEN, global_batch=2, packing=packing, prefetch=0):
        flat = (batch.input_ids.ravel(), batch.position_ids.ravel(), batch.targets.ravel())
        losses, part = model.losses(*flat, batch.cu_seqlens.astype(np.int64))
        mask: Bools = batch.loss_mask.ravel()
        assert (losses[~mask] == 0).all()
        found, summed, masked, seen = (
            found + losses.sum(),
            summed + part,
            masked + int(mask.sum()),
            seen + batch.num_targets,
        )
    assert masked == seen == targets
    assert found == pytest.approx(expected, rel=1e-12)
    assert np.allclose(summed, gradient, rtol=1e-9, atol=1e-9)


def test_it_is_not_the_same_across_documents() -> None:
    """The law can fail: attention over whole rows gives another loss."""
    ids = np.random.default_rng(1).integers(0, VOCABULARY, sum(LENGTHS)).tolist()
    river, model = ArrayRiver(ids, LENGTHS), Model()
    apart = together = 0.0
    for batch in Loader(river, seq_len=SEQ_LEN, global_batch=2, packing="best_fit", prefetch=0):
        flat = (batch.input_ids.ravel(), batch.position_ids.ravel(), batch.targets.ravel())
        apart += model.losses(*flat, batch.cu_seqlens.astype(np.int64))[0].sum()
        together += model.losses(*flat, np.arange(0, batch.input_ids.size + 1, SEQ_LEN))[0].sum()
    assert abs(apart - together) > 0.1
