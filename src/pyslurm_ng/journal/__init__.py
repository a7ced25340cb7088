"""The ordered, checksummed file of event batches, its checkpoints and its readers.

Generic over bytes: this package knows frames, sequences and files, not events.
"""
