"""What can go wrong, as one tree of one level.

    RiverError
      InputError            a text, file, folder or option of the user's cannot be used
      FormatError           a stored file is damaged, truncated, foreign or hostile
      LimitError            a number that the target cannot hold, or too little of something
      MismatchError         two things that must agree do not (state and corpus, encoder and reference, plan and rerun)
      MissingPackageError   an optional package is absent; the message has its install line

Wording: `what: got X, expected Y; do Z`, the path first, a parameter by its name.
"""

import os


class RiverError(Exception):
    """Any failure that tokenriver foresees; its text is all that a person needs to act."""


class InputError(RiverError):
    """A text, file, folder or option given by the user cannot be used."""


class FormatError(RiverError):
    """A stored file is damaged, truncated, foreign or hostile; the text has path, offset, value and expectation."""


class LimitError(RiverError):
    """A count or size that the target cannot hold, or too few rows or too little space; the text has the number."""


class MismatchError(RiverError):
    """Two things that must agree do not: state and corpus, fast encoder and reference, plan and rerun."""


class MissingPackageError(RiverError):
    """An optional package is absent; the text has its install line."""


def refuse_name(what: str, value: object, cure: str) -> None:
    """InputError for a name or path where the thing itself is asked for."""
    if isinstance(value, str | os.PathLike):
        raise InputError(f"{what}: got {os.fspath(value)!r}, expected the thing itself; give {cure}")
