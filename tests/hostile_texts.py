"""Strings that tell tokenizers apart, for hypothesis and by hand."""

from hypothesis import strategies as st

# younger than Unicode 14, or no characters at all: the fast encoder must not see them
YOUNG = "\u0cdc\u088f\u0c5c\ua7ce\U00010940\U00011db0\U0001e6c0\U00033479\U0001fae8\U0010ffff\U0010fffe\uffff\ufdd0"
SPELLED = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<s>", "</s>", "<pad>", "[INST]")

_pieces = st.one_of(
    st.sampled_from(
        [" ", "  ", "\n", "\n\n", "\t", "\r\n", "\r", "\x0b", "\x85", "\xa0", "\u3000", "\u2028", "\u200b"]
    ),
    st.sampled_from(["'s", "'S", "'t", "'re", "'VE", "'m", "'ll", "'d", "'", "''", "\u2019s", "'\u017f"]),
    st.sampled_from(
        ["a", "b c", "word", "Word", "WORD", "x y z", "naive", "\u00e9", "e\u0301", "\u4e2d\u6587", "\u0928\u092e"]
    ),
    st.sampled_from(
        ["1", "12", "123", "1234", "\u0663", "\u00bd", "\u2167", ".", "...", "_", "-=", "/\n", "!\n\n", "\x00"]
    ),
    st.sampled_from(
        ["\U0001f469\u200d\U0001f467", "\U0001f600", "\ufe0f", "\u0301\u0302", "\u20e3", "\ufeff", "\ufffd"]
    ),
    st.sampled_from(SPELLED),
    st.sampled_from(YOUNG),
    st.characters(exclude_categories=["Cs"]),
)
texts = st.lists(_pieces, max_size=24).map("".join)
batches = st.lists(texts, min_size=1, max_size=6)
