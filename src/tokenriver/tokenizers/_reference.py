"""The reference encoder of rank tables: the tiktoken package. Loaded by name at its first use, since most processes
never need it."""

from collections.abc import Callable, Mapping, Sequence

import tiktoken

from tokenriver.tokenizers import _text


def encoder(ranks: Mapping[bytes, int], pattern: str) -> Callable[[Sequence[bytes]], list[list[int]]]:
    """UTF-8 texts -> ids by tiktoken, without special tokens, on the calling thread."""
    encoding = tiktoken.Encoding("ranks", pat_str=pattern, mergeable_ranks=dict(ranks), special_tokens={})
    return lambda texts: [encoding.encode_ordinary(_text.as_text(text)) for text in texts]
