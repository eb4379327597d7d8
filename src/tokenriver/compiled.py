"""The compiled loops, where they were built: `pip install` builds them if it finds a C compiler, and goes on if not.

Whoever uses them has another way, by numpy, for COMPILED is None; the same tests hold of both.
"""

from types import ModuleType

COMPILED: ModuleType | None
try:
    from tokenriver import _compiled as _built
except ImportError:
    COMPILED = None
else:
    COMPILED = _built
