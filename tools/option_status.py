"""Which documented options and words a command knows but refuses, read from its own tables."""

from __future__ import annotations

import importlib

from slurm_facts import documented

from pyslurm_ng.cli import differences

FACTS = documented()
JOB_COMMANDS = ("sbatch", "salloc", "srun")


def refused_options(command: str) -> set[str]:
    """Return long names.

    The job commands share a table that says what each option does; the others name what they
    refuse in REFUSED. Either way an option missing from the command's own table is refused, too.
    """
    if command in JOB_COMMANDS:
        from pyslurm_ng.cli.step import step_request
        from pyslurm_ng.cli.submit.options import is_implemented

        names = {option["long"] for option in FACTS[command]["option"]}
        refused = {name for name in names if not is_implemented(name)}
        return refused | set(step_request.REFUSED) if command == "srun" else refused
    try:
        module = importlib.import_module(f"pyslurm_ng.cli.{command.replace('-', '_')}")
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


def recorded_options(command: str) -> dict[str, str]:
    """Return by long name what is said of options that are kept with the job and not obeyed."""
    if command not in JOB_COMMANDS:
        return {}
    from pyslurm_ng.cli.submit.options import NAMED, RECORDED

    kept = "kept with the job and shown"
    names = {option["long"] for option in FACTS[command]["option"]} & RECORDED
    return {name: f"named, and {kept}" if name in NAMED else kept for name in names}


def without_effect(command: str) -> set[str]:
    """Return long names of options that are taken and named as without effect."""
    module = importlib.import_module(f"pyslurm_ng.cli.{command.replace('-', '_')}")
    return set(getattr(module, "NO_EFFECT", ()))


def difference(command: str, name: str, *, is_word: bool = False) -> str:
    """Return what an option, or a command of scontrol, does not do; "" for nothing."""
    if is_word:
        return differences.SCONTROL.get(name, "") if command == "scontrol" else ""
    if name in differences.LIKE_SLURM.get(command, ()):
        return ""
    return differences.OPTIONS.get(name, "")


def sacctmgr_words() -> list[tuple[str, bool]]:
    """Return each verb of sacctmgr with each of its entities, and whether it is built."""
    from pyslurm_ng.cli import sacctmgr
    from pyslurm_ng.cli.accounting import sacctmgr_list
    from pyslurm_ng.dbd.admin.verbs import HANDLERS
    from pyslurm_ng.dbd.show import LISTERS

    listed = {*LISTERS, *sacctmgr_list.OF_DAEMONS}
    words = []
    for verb, entities in sacctmgr.ENTITIES.items():
        for entity in entities:
            works = verb == "clear" or (verb, entity) in HANDLERS
            words.append((f"{verb} {entity}", entity in listed if verb == "list" else works))
    verbs = dict.fromkeys(verb for _, verb in sacctmgr.VERBS if verb not in sacctmgr.ENTITIES)
    return words + [(verb, verb not in sacctmgr.NOT_YET) for verb in verbs]
