"""Files recognised by their first bytes, without the packages that read them: a folder of JSON lines must not cost an
import of pyarrow, and a Parquet file must be called one where the extra is not installed."""

from pathlib import Path

from tokenriver import files

PARQUET_SUFFIXES = (".parquet", ".pq")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")

HDF5_SUFFIXES = (".h5", ".hdf5")

_PACKAGED = {  # format: (first bytes of its files, their name endings)
    "hdf5": ((b"\x89HDF\r\n\x1a\n",), (*HDF5_SUFFIXES, "shards.json")),
    "parquet": ((b"PAR1", b"PARE"), PARQUET_SUFFIXES),
    "arrow": ((b"ARROW1", b"\xff\xff\xff\xff"), (*ARROW_SUFFIXES, "state.json", "dataset_dict.json")),
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


def may_be(format: str, path: Path) -> bool:
    """Is it worth loading a format's package for this file or folder? Always so for a format without one."""
    if format not in _PACKAGED:
        return True
    heads, endings = _PACKAGED[format]
    if path.is_dir():
        return any(name.endswith(endings) for name in files.list_folder(path))
    if path.is_file():
        with files.naming(path, "read"), path.open("rb") as file:
            return file.read(8).startswith(heads) or path.name.endswith(endings)
    return False


def is_parquet(head: bytes) -> bool:
    """The magic of a Parquet file (PARE: its footer is encrypted)."""
    return head[:4] in (b"PAR1", b"PARE")


def is_arrow(head: bytes) -> bool:
    """The magic of an Arrow IPC file, or the first message of an IPC stream: continuation mark and a small length."""
    length = int.from_bytes(head[4:8], "little")
    return head[:6] == b"ARROW1" or (head[:4] == b"\xff\xff\xff\xff" and 0 < length < 1 << 28)


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
