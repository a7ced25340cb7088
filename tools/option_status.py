"""Which documented options and words a command knows but refuses, read from its own tables."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

FACTS = json.loads((Path(__file__).parent / "facts" / "commands.json").read_text())
JOB_COMMANDS = ("sbatch", "salloc", "srun")


def refused_options(command: str) -> set[str]:
    """Return long names.

    The job commands share a table that says what each option does; the others name what they
    refuse in REFUSED. Either way an option missing from the command's own table is refused, too.
    """
    if command in JOB_COMMANDS:
        from pyslurm_ng.cli.submit.options import is_implemented

        names = {option["long"] for option in FACTS[command]["option"]}
        return {name for name in names if not is_implemented(name)}
    try:
        module = importlib.import_module(f"pyslurm_ng.cli.{command}")
    except ModuleNotFoundError:
        return set()
    documented = {option["long"] for option in FACTS[command].get("option", [])}
    known = {row[0] for row in getattr(module, "OPTIONS", ())}
    missing = documented - known if known else set()
    return set(getattr(module, "REFUSED", ())) | missing


def refused_words(command: str) -> set[str]:
    """Return the commands of a command, and what it might show, that are refused by name."""
    if command != "scontrol":
        return set()
    from pyslurm_ng.cli.control.show import REFUSED_ENTITIES
    from pyslurm_ng.cli.scontrol import REFUSED_COMMANDS

    return {*REFUSED_COMMANDS, *REFUSED_ENTITIES}


def recorded_options(command: str) -> set[str]:
    """Return long names of options that are kept with the job and shown, and not yet obeyed."""
    if command not in JOB_COMMANDS:
        return set()
    from pyslurm_ng.cli.submit.options import RECORDED

    return {option["long"] for option in FACTS[command]["option"]} & RECORDED
