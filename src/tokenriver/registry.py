"""A folder is a registry and a file name is the key: `load("formats", "llmc")` is the module formats/llmc.py.

Files that start with `_` are helpers and no keys; hyphens in a key read as underscores in the file name; a dotted
name (`my_lab.my_format`) is a module from outside. There is nothing to register and no list to edit.
"""

import importlib
import importlib.util
import pkgutil
from types import ModuleType

from tokenriver.errors import InputError, MissingPackageError

# which extra of pyproject.toml brings the package that a registry module imports at its top
EXTRAS = {
    "fsspec": "remote",
    "h5py": "hdf5",
    "huggingface_hub": "remote",
    "jinja2": "huggingface",
    "pyarrow": "parquet",
    "sentencepiece": "sentencepiece",
    "tokenizers": "huggingface",
    "torch": "torch",
    "httptools": "remote",
    "urllib3": "remote",
}


def names(kind: str) -> list[str]:
    """The keys of registry `kind` ("formats", "sources", "tokenizers", "packing", ...), sorted."""
    folder = importlib.import_module(f"tokenriver.{kind}").__path__
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(folder) if not m.name.startswith("_"))


def load(kind: str, name: str) -> ModuleType:
    """The module of key `name` in registry `kind`; InputError with the known keys, or MissingPackageError."""
    key = name.replace("-", "_")
    outside = "." in name
    module = name if outside else f"tokenriver.{kind}.{key}"
    if not outside and (key.startswith("_") or not key.isidentifier() or importlib.util.find_spec(module) is None):
        raise InputError(f"{kind}: got {name!r}, expected one of {', '.join(names(kind))} or a dotted module name")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        return _explain(kind, name, error)


def _explain(kind: str, name: str, error: ModuleNotFoundError) -> ModuleType:
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is not None:
        raise MissingPackageError(
            f"{kind} {name!r} needs the package {package}; run: pip install 'tokenriver[{extra}]'"
        ) from error
    raise InputError(f"{kind}: cannot import {name!r}: {error}; check the dotted name and the search path") from error
