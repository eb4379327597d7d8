"""A small GPT trained on batches of tokenriver, on a CPU, in minutes.

They need torch: pip install 'tokenriver[torch]'.
"""
