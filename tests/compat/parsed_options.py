"""What the commands that submit make of their options."""

from __future__ import annotations

from pyslurm_ng.cli.submit import options as op
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE


def parsed(command: str, words: list[str]) -> op.Options:
    """Read words as the command line of a command."""
    options = op.Options(command)
    pairs, _ = options.split_words(words)
    options.apply_all(pairs, COMMAND_LINE)
    options.finish()
    return options
