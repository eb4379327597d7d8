"""Batches as other frameworks want them; one file a framework, imported only when asked for."""
