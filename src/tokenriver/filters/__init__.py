"""Registry of filters: <name>.py says which documents of a build stay (contract: tokenriver.types.Filter)."""
