"""Files recognised by first bytes and names, without the modules and packages that read them: a folder of JSON lines
must not cost an import of pyarrow, nor a bare file of ids those of a dozen formats, and a Parquet file must be called
one where the extra is not installed."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tokenriver import files

PARQUET_SUFFIXES = (".parquet", ".pq")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")

HDF5_SUFFIXES = (".h5", ".hdf5")


@dataclass(frozen=True, slots=True)
class Signs:
    """Without any of these a path is surely not of a format."""

    endings: tuple[str, ...]
    """Of its name, or of a name in it."""
    beside: tuple[str, ...] = ()
    """Of a file beside it, or in it."""
    heads: tuple[bytes, ...] = ()
    """First bytes of a file, whatever it is called."""


_SIGNS = {
    "arrow": Signs((*ARROW_SUFFIXES, "state.json", "dataset_dict.json"), (), (b"ARROW1", b"\xff\xff\xff\xff")),
    "hdf5": Signs((*HDF5_SUFFIXES, "shards.json"), (), (b"\x89HDF\r\n\x1a\n",)),
    "litdata": Signs((), ("index.json",)),
    "llmc": Signs((".bin",)),
    "mds": Signs((".mds", ".mds.zstd"), ("index.json",)),
    "megatron": Signs((".idx",), (".idx",)),
    "minimind": Signs(("doc_lengths.npy",), ("doc_lengths.npy",)),
    "nanogpt": Signs((".bin",)),
    "nanotron": Signs((".ds",)),
    "native": Signs((), (".docs",)),
    "olmo": Signs((".npy",)),
    "parquet": Signs(PARQUET_SUFFIXES, (), (b"PAR1", b"PARE")),
    "safetensors": Signs((".safetensors",)),
}

_FOREIGN = (  # (bytes, their place, name)
    (b"BZh", 0, "bzip2 data"),
    (b"\xfd7zXZ\0", 0, "xz data"),
    (b"\x04\x22\x4d\x18", 0, "lz4 data"),
    (b"PK\x03\x04", 0, "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", 0, "a 7z archive"),
    (b"ustar", 257, "a tar archive"),
)
_MARKS = ((b"\xff\xfe\0\0", "UTF-32"), (b"\0\0\xfe\xff", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def likely(formats: Iterable[str], path: Path) -> list[str]:
    """The formats whose modules are worth loading for this path; one that has no signs here always is."""
    inside = files.list_folder(path) if path.is_dir() else None
    return [format for format in formats if format not in _SIGNS or _shows(path, inside, _SIGNS[format])]


def _shows(path: Path, inside: list[str] | None, signs: Signs) -> bool:
    if inside is not None:
        return any(name.endswith((*signs.endings, *signs.beside)) for name in inside)
    if path.name.endswith(signs.endings) or any(_beside(path, name) for name in signs.beside):
        return True
    if not signs.heads or not path.is_file():
        return False
    with files.naming(path, "read"), path.open("rb") as file:
        return file.read(8).startswith(signs.heads)


def _beside(path: Path, name: str) -> bool:
    """Is there a file of this name, or with this ending in place of the path's own or behind it?"""
    if not name.startswith("."):
        return path.with_name(name).is_file()
    return path.with_suffix(name).is_file() or path.with_name(path.name + name).is_file()


def is_parquet(head: bytes) -> bool:
    """The magic of a Parquet file (PARE: its footer is encrypted)."""
    return head[:4] in (b"PAR1", b"PARE")


def is_arrow(head: bytes) -> bool:
    """The magic of an Arrow IPC file, or the first message of an IPC stream: continuation mark and a small length."""
    length = int.from_bytes(head[4:8], "little")
    return head[:6] == b"ARROW1" or (head[:4] == b"\xff\xff\xff\xff" and 0 < length < 1 << 28)


def is_array(head: bytes) -> bool:
    """Does a text begin as a JSON array does?"""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def foreign_name(head: bytes) -> str:
    """What an archive or a coding that tokenriver does not read is called; "" for anything else."""
    return next((name for magic, place, name in _FOREIGN if head[place : place + len(magic)] == magic), "")


def wide_encoding(head: bytes) -> str:
    """ "UTF-16" or "UTF-32" by the mark, or without one by where the zeros of the first characters are; else ""."""
    name = next((name for mark, name in _MARKS if head.startswith(mark)), "")
    zeros = "".join("0" if byte == 0 else "x" for byte in head[:8])
    if not name and zeros in ("x000x000", "000x000x"):
        return "UTF-32"
    if not name and zeros[:4] in ("x0x0", "0x0x"):
        return "UTF-16"
    return name
