"""litdata: its dataset reads the token chunks of a folder, its writer writes them."""

from typing import Any

import numpy as np
import torch
from litdata.streaming import StreamingDataset
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.writer import BinaryWriter


def read(request: dict[str, Any]) -> list[list[int]]:
    """The blocks of `block` ids of `folder`."""
    dataset = StreamingDataset(request["folder"], item_loader=TokensLoader(block_size=request["block"]))
    return [dataset[i].tolist() for i in range(len(dataset))]


def write(request: dict[str, Any]) -> None:
    """`documents` as arrays, or as `kind` "tensor", in chunks of `chunk_size` ids."""
    writer = BinaryWriter(request["folder"], chunk_size=request["chunk_size"], item_loader=TokensLoader())
    for number, document in enumerate(request["documents"]):
        ids = np.array(document, request["dtype"])
        writer[number] = torch.from_numpy(ids) if request["kind"] == "tensor" else ids
    writer.done()
    writer.merge(1)
