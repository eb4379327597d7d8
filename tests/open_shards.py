"""What an open shard holds, as lists."""

from tokenriver.storage import ShardReader


def all_ids(reader: ShardReader) -> list[int]:
    """Every id of a shard."""
    return [int(value) for value in reader.read(0, reader.num_tokens)]


def all_ends(reader: ShardReader) -> list[int]:
    """The ends of its documents; it must have them."""
    assert reader.doc_ends is not None
    return [int(value) for value in reader.doc_ends]
