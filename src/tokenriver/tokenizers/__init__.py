"""Registry of tokenizers: <name>.py has load(...) -> Tokenizer (contract: tokenriver.types.Tokenizer)."""
