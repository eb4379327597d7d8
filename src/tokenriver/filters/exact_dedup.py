"""Of documents with the same text, byte for byte, the first in input order stays."""

from tokenriver.errors import InputError
from tokenriver.filterrules import FilterRule, Parameters
from tokenriver.hashing import text_hashes
from tokenriver.types import UInt64

SALT = b"tokenriver dedup 1"


def rules(parameters: Parameters) -> list[FilterRule]:
    """The one rule; InputError for parameters, of which it has none."""
    if parameters:
        raise InputError(f"filter exact-dedup: got {', '.join(parameters)}, expected no parameters; leave them out")
    return [FilterRule("duplicate", digest=digests)]


def digests(texts: list[bytes]) -> UInt64:
    """(k, 2): 128 bits of each text. Two of 10^10 different texts share theirs with a chance of 10^-19."""
    return text_hashes(texts, SALT, 2)
