"""datatrove: its datasets read .ds files, its tokenizer's file writes them."""

from pathlib import Path
from typing import Any

from datatrove.io import get_datafolder
from datatrove.pipeline.tokens.tokenizer import TokenizedFile
from datatrove.utils.dataset import DatatroveFileDataset, DatatroveFolderDataset


def read(request: dict[str, Any]) -> dict[str, Any]:
    """Samples of `length` ids of `file` (ids and positions in documents), and of the whole folder."""
    file, width, length = request["file"], request["width"], request["length"]
    dataset = DatatroveFileDataset(file, length - 1, width, return_positions=True)
    folder = DatatroveFolderDataset(str(Path(file).parent), length - 1, filename_pattern="*.ds", token_size=width)
    samples = [dataset[i] for i in range(len(dataset))]
    return {
        "ids": [sample["input_ids"].tolist() for sample in samples],
        "positions": [sample["positions"].tolist() for sample in samples],
        "folder": [folder[i]["input_ids"].tolist() for i in range(len(folder))],
    }


def write(request: dict[str, Any]) -> None:
    """`documents` as `name` in `folder`, ids `width` bytes wide."""
    out = TokenizedFile(
        get_datafolder(request["folder"]),
        request["name"],
        save_final_metadata=True,
        tokenizer_name_or_path=request["tokenizer"],
        token_size=request["width"],
    )
    for document in request["documents"]:
        out.write(document, None)
    out.close()
