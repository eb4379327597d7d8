"""megatron-core: its indexed dataset and the dataset's builder."""

from typing import Any

import numpy as np
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder


def read(request: dict[str, Any]) -> dict[str, Any]:
    """Sequences, sequence modes and document indices of the files `prefix`.bin and .idx."""
    dataset = IndexedDataset(request["prefix"], multimodal=request["multimodal"], mmap=request["mmap"])
    found = [dataset[i] for i in range(len(dataset))]
    modes = [int(mode) for _, mode in found] if request["multimodal"] else None
    sequences = [sequence for sequence, _ in found] if request["multimodal"] else found
    return {
        "sequences": [sequence.tolist() for sequence in sequences],
        "dtype": str(sequences[0].dtype),
        "modes": modes,
        "documents": dataset.document_indices.tolist(),
        "middle": dataset.get(0, offset=1).tolist() if not request["multimodal"] and len(sequences[0]) > 1 else None,
    }


def write(request: dict[str, Any]) -> None:
    """`documents`, each a list of sequences; `modes`, one of a sequence, or None."""
    builder = IndexedDatasetBuilder(
        request["prefix"] + ".bin", dtype=np.dtype(request["dtype"]).type, multimodal=request["modes"] is not None
    )
    modes = iter(request["modes"] or [])
    for document in request["documents"]:
        for sequence in document:
            builder.add_item(torch.tensor(sequence), next(modes, 0))
        builder.end_document()
    builder.finalize(request["prefix"] + ".idx")
