"""Sizes that a build takes unless others are asked for; apart, so that the command line knows them without numpy."""

TOKENIZER = "gpt2"
UNIT_BYTES = 16 << 20
"""Text of one unit of work."""
SHARD_TOKENS = 10**8
SMALL_INPUT = 64 << 20
"""Inputs of less text than this are built in the calling process: workers would cost more than they save."""
