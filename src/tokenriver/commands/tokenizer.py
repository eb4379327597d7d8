"""Make a tokenizer from your own text, see what one does, and check its fast encoder.

Every action has --help.

Example:  tokenriver tokenizer characters text/ -o meta.pkl
"""

from collections.abc import Callable, Mapping

from tokenriver.commands import _tokenizer_characters

ACTIONS: Mapping[str, Callable[..., None]] = {
    "characters": _tokenizer_characters.run,
}
