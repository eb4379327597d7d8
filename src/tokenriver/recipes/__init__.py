"""Known datasets, one small data file each: <name>.toml (contract: tokenriver.recipe)."""
