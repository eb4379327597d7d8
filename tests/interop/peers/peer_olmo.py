"""OLMo-core reads raw token arrays and their documents; dolma writes them."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import olmo_core.io
from dolma.tokenizer.data_types import TokenizerOutput
from dolma.tokenizer.memmap_writer import MemmapWriter
from olmo_core.data import NumpyFSLDataset
from olmo_core.data.utils import iter_document_indices


def read(request: dict[str, Any]) -> dict[str, Any]:
    """Windows of `length` ids of the `files`; the documents of each file, by its metadata or by `eos`."""
    olmo_core.io.cached_path = lambda path, **_: Path(path)  # fetches what lies elsewhere; nothing does here
    dtype = np.dtype(request["dtype"]).type
    dataset = NumpyFSLDataset(
        *request["files"],
        sequence_length=request["length"],
        pad_token_id=0,
        eos_token_id=request["eos"],
        vocab_size=int(np.iinfo(dtype).max),
        dtype=dtype,
    )
    with tempfile.TemporaryDirectory() as work:
        dataset.work_dir = Path(work)
        dataset.prepare()
        windows = [dataset[i]["input_ids"].tolist() for i in range(len(dataset))]
    options = {"eos_token_id": request["eos"], "dtype": dtype, "use_array_if_local": request["by_eos"]}
    documents = [
        [[int(start), int(stop)] for start, stop in iter_document_indices(file, **options)] for file in request["files"]
    ]
    return {"windows": windows, "documents": documents}


def write(request: dict[str, Any]) -> int:
    """`documents` into the file `path`; how many of them it took."""
    taken = 0
    with MemmapWriter(request["path"], np.dtype(request["dtype"]), max_tokens=request["max_tokens"]) as out:
        for number, ids in enumerate(request["documents"]):
            output = TokenizerOutput.from_tokens(f"id-{number}", 'src, "quoted"', number + 1, ids)
            if not out.write(output):
                break
            taken += 1
    return taken
