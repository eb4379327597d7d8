"""The encodings that the tiktoken package knows by name: split pattern, digest of the rank file, special tokens."""

from collections.abc import Mapping
from typing import NamedTuple


class Pattern(NamedTuple):
    """How text is split before the ranks apply: gigatoken's name for it, and the expression for the reference."""

    fast: str
    expression: str


GPT2 = Pattern("gpt2", r"'(?:[dmst]|ll|re|ve)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s")
CL100K = Pattern(
    "gpt4",
    r"'(?i:[dmst]|ll|re|ve)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
)
O200K = Pattern(
    "o200k",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'[dmst]|'ll|'re|'ve)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'[dmst]|'ll|'re|'ve)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)


class Encoding(NamedTuple):
    """A published encoding."""

    pattern: Pattern
    digest: str
    """sha256 of its rank file."""
    cache_name: str
    """The rank file's name in tiktoken's cache: sha1 of the address that tiktoken loads it from."""
    specials: Mapping[str, int]


END = "<|endoftext|>"
START = "<|startoftext|>"
_R50K = (
    GPT2,
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4",
)
_P50K = (
    GPT2,
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "ec7223a39ce59f226a68acc30dc1af2788490e15",
)
_CL100K = (
    CL100K,
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
)
_O200K = (
    O200K,
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "fb374d419588a4632f3f557e76b4b70aebbca790",
)
_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_HARMONY = {200002: "return", 200003: "constrain", 200005: "channel", 200006: "start", 200007: "end"} | {
    200008: "message",
    200012: "call",
}
ENCODINGS: Mapping[str, Encoding] = {
    "gpt2": Encoding(*_R50K, {END: 50256}),
    "r50k_base": Encoding(*_R50K, {END: 50256}),
    "p50k_base": Encoding(*_P50K, {END: 50256}),
    "p50k_edit": Encoding(*_P50K, {END: 50256} | {name: 50281 + i for i, name in enumerate(_FIM)}),
    "cl100k_base": Encoding(
        *_CL100K, {END: 100257, "<|endofprompt|>": 100276} | {name: 100258 + i for i, name in enumerate(_FIM)}
    ),
    "o200k_base": Encoding(*_O200K, {END: 199999, "<|endofprompt|>": 200018}),
    # its <|endofprompt|> has the id of one of the reserved tokens, which tiktoken names too; ours is the published one
    "o200k_harmony": Encoding(
        *_O200K,
        {START: 199998, END: 199999}
        | {f"<|{_HARMONY.get(i, f'reserved_{i}')}|>": i for i in range(200000, 201088)}
        | {"<|endofprompt|>": 200018},
    ),
}
