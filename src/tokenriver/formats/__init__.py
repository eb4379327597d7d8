"""Registry of formats: <name>.py reads and writes one shard format (contract: tokenriver.types.Format)."""
