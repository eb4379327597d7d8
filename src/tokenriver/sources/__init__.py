"""Registry of sources: <kind>.py turns files of that kind into DocumentBatch (contract: tokenriver.types.Source)."""
