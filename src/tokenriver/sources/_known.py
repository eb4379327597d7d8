"""Recognising Parquet and Arrow files without pyarrow: a folder of JSON lines must not cost its import, and a Parquet
file must be called one where the extra is not installed."""

PARQUET_SUFFIXES = (".parquet", ".pq")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")


def is_parquet(head: bytes) -> bool:
    """The magic of a Parquet file (PARE: its footer is encrypted)."""
    return head[:4] in (b"PAR1", b"PARE")


def is_arrow(head: bytes) -> bool:
    """The magic of an Arrow IPC file, or the first message of an IPC stream: continuation mark and a small length."""
    return head[:6] == b"ARROW1" or (
        head[:4] == b"\xff\xff\xff\xff" and 0 < int.from_bytes(head[4:8], "little") < 1 << 28
    )
