"""The reference encoder of rank tables: the tiktoken package. Loaded by name at its first use, since most processes
never need it."""

from collections.abc import Callable, Mapping

import tiktoken

from tokenriver.tokenizers import _text


def encoder(ranks: Mapping[bytes, int], pattern: str) -> Callable[[bytes], list[int]]:
    """UTF-8 text -> ids by tiktoken, without special tokens."""
    encoding = tiktoken.Encoding("ranks", pat_str=pattern, mergeable_ranks=dict(ranks), special_tokens={})
    return lambda text: encoding.encode_ordinary(_text.as_text(text))
