"""tokenriver: text in, training batches out. Importing it does nothing but define these names."""

from tokenriver.errors import (
    FormatError,
    InputError,
    LimitError,
    MismatchError,
    MissingPackageError,
    RiverError,
)

__all__ = [
    "FormatError",
    "InputError",
    "LimitError",
    "MismatchError",
    "MissingPackageError",
    "RiverError",
]

__version__ = "0.1.0"
