"""The ordered, checksummed file of event batches, its checkpoints and its readers.

This package knows frames, sequences and files. What the bytes of a batch mean it does not know.
"""
