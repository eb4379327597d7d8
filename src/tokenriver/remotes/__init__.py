"""Registry of remote stores: <name>.py opens files of one kind of address (contract: tokenriver.wire)."""
