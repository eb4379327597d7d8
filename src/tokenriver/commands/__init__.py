"""Registry of commands: <name>.py is `tokenriver <name>`; cli.py only dispatches."""
