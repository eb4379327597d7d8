"""What a build takes unless something else is asked for; apart, so that the command line knows it without numpy."""

TOKENIZER = "gpt2"
CHARACTERS = "char"
"""The tokenizer whose vocabulary is its inputs' own."""
CHARACTERS_FILE = "meta.pkl"
"""Where nanoGPT, and so everybody, keeps that vocabulary."""
UNIT_BYTES = 16 << 20
"""Text of one unit of work."""
SHARD_TOKENS = 10**8
SMALL_INPUT = 64 << 20
"""Inputs of less text than this are built in the calling process: workers would cost more than they save."""
