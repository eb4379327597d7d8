"""nanoGPT's own meta.pkl: read, and written byte for byte."""

from golden_data import golden
from tokenriver.formats import _meta


def test_the_character_vocabulary() -> None:
    path = golden("nanogpt/meta.pkl")
    letters = _meta.read_meta(path)
    assert (len(letters), letters[:6], letters[-1]) == (65, "\n !$&'", "z")
    assert _meta.pack_meta(letters) == path.read_bytes()
