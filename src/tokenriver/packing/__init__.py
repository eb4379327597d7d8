"""Registry of packings: <name>.py says where each row lies in the river (contract: tokenriver.types.Packing)."""
