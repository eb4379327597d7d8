"""Conversation -> pieces of text and of special tokens, one chat template a file."""
