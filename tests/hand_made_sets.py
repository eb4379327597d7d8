"""Token files of other trainers, written field by field as formats.md has them."""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8}
Documents = Sequence[Sequence[Sequence[int]]]
"""Documents of sequences of ids."""


def megatron_index(documents: Documents, dtype: str = "uint16", modes: Sequence[int] = ()) -> bytes:
    """The `.idx` file of these documents."""
    sequences = [sequence for document in documents for sequence in document]
    item = np.dtype(dtype).itemsize
    out = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, CODES[dtype], len(sequences), len(documents) + 1)
    out += b"".join(struct.pack("<i", len(sequence)) for sequence in sequences)
    at = 0
    for sequence in sequences:
        out += struct.pack("<q", at)
        at += item * len(sequence)
    count = 0
    out += struct.pack("<q", 0)
    for document in documents:
        count += len(document)
        out += struct.pack("<q", count)
    return out + b"".join(struct.pack("<b", mode) for mode in modes)


def ids_of(documents: Documents) -> list[int]:
    return [i for document in documents for sequence in document for i in sequence]


def ends_of(documents: Documents) -> list[int]:
    ends, at = [], 0
    for document in documents:
        at += sum(map(len, document))
        ends.append(at)
    return ends


def megatron_set(
    folder: Path, documents: Documents, dtype: str = "uint16", modes: Sequence[int] = (), name: str = "set"
) -> Path:
    """Both files of a set; the path of its ids."""
    path = folder / f"{name}.bin"
    path.write_bytes(np.array(ids_of(documents), np.dtype(dtype).newbyteorder("<")).tobytes())
    path.with_suffix(".idx").write_bytes(megatron_index(documents, dtype, modes))
    return path


def nanotron_file(
    folder: Path, documents: Sequence[Sequence[int]], width: int = 2, name: str = "00000_unshuffled.ds"
) -> Path:
    """Ids, index and metadata of a `.ds` file."""
    path = folder / name
    ids = [i for document in documents for i in document]
    path.write_bytes(b"".join(i.to_bytes(width, "little") for i in ids))
    ends = ends_of([[document] for document in documents])
    Path(f"{path}.index").write_bytes(struct.pack(f"<{len(ends)}Q", *ends))
    Path(f"{path}.metadata").write_text(f"toy|{width}\n{len(ids)}\n{len(ids)}.0 T")
    return path


def token_stream(folder: Path, documents: Sequence[Sequence[int]], dtype: str = "int64") -> Path:
    """`tokens.bin` and `doc_lengths.npy`."""
    path = folder / "tokens.bin"
    path.write_bytes(np.array([i for document in documents for i in document], "<u2").tobytes())
    np.save(folder / "doc_lengths.npy", np.array(list(map(len, documents)), dtype), allow_pickle=False)
    return path
