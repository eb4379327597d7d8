"""What each field of manifest.json may hold."""

from tokenriver import rules

ID = rules.or_none(rules.integer(0, 2**32 - 1))
WORD = rules.matching("[a-z0-9_-]{0,64}", "a short lower-case word")
SHARD: rules.Table = {
    "file": rules.FILE,
    "split": rules.matching("[a-z0-9_-]{1,64}", "a short lower-case word"),
    "num_tokens": rules.POSITIVE,
    "num_documents": rules.COUNT,
    "num_bytes": rules.POSITIVE,
    "sha256": rules.SHA256,
    "index_bytes": rules.COUNT,
    "index_sha256": rules.matching("([0-9a-f]{64})?", "64 hex digits or nothing"),
}
SOURCE: rules.Table = {
    "path": rules.INSIDE,
    "size": rules.COUNT,
    "sha256": rules.or_none(rules.SHA256),
    "kind": WORD,
    "compression": WORD,
    "records": rules.COUNT,
}
TOKENIZER: rules.Table = {
    "name": rules.TEXT,
    "fingerprint": rules.SHA256,
    "vocab_size": rules.integer(1, 2**32),
    "model_vocab_size": rules.integer(1, 2**32),
    "bos_id": ID,
    "eos_id": ID,
    "pad_id": ID,
}
MANIFEST: rules.Table = {
    "balance": rules.OBJECT,
    "digest": rules.SHA256,
    "dtype": rules.matching("u?int(8|16|32|64)", "an integer type such as uint16"),
    "files": rules.OBJECT,
    "format": WORD,
    "framing": WORD,
    "options": rules.OBJECT,
    "rivers": rules.OBJECT,
    "shards": rules.OBJECT,
    "sources": rules.OBJECT,
    "tokenizer": rules.or_none(rules.OBJECT),
    "version": rules.POSITIVE,
}


FILE: rules.Table = {
    "file": rules.FILE,
    "num_bytes": rules.POSITIVE,
    "sha256": rules.SHA256,
}
RIVER = rules.matching("(sampled:)?[0-9a-f]{64}", "64 hex digits, after `sampled:` or not")
