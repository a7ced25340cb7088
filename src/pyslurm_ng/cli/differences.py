"""Options and words of commands that do less than in Slurm; each is refused by name.

Commands do not load this: the refusals are where values are read. The compatibility table and the
manual pages are generated from it, and tests run each row.
"""

from __future__ import annotations

_SIBLINGS = "a job is of the cluster that it is sent to, and has no siblings in others"
_PARSER = "v0.0.43 to v0.0.46; older versions of the data parser are refused"

OPTIONS: dict[str, str] = {
    "async": "streams are files, slurm-%J.out unless named; options that need an srun are refused",
    "bb": "of a heterogeneous job only the first component's counts",
    "bbf": "as --bb",
    "cpu-freq": "set on the step's CPUs where the kernel has cpufreq; listings do not show it",
    "ctld": "every request goes to slurmctld",
    "fanout": "taken; a file goes to all nodes at once",
    "federation": "a list for each cluster, below its name, as with -M",
    "get-user-env": "the login environment always; timeout and mode are taken and not kept",
    "json": _PARSER,
    "mpi": "cray_shasta is refused; pmix needs libpmix.so.2, and only the version that is there",
    "no-trunc": "nothing is cut without it either",
    "qos": "of a list squeue shows the one that counts now, not the list",
    "requeue": "=expedite: other jobs may use its nodes as far as they do not delay it",
    "sib": _SIBLINGS,
    "sibling": _SIBLINGS,
    "stepmgr": "refused with --no-kill, and for heterogeneous jobs",
    "threads": "taken; all nodes are asked at once",
    "treewidth": "taken; all nodes are asked at once",
    "unbuffered": "tasks are told (SLURM_UNBUFFEREDIO); they get no terminal, so libraries buffer",
    "yaml": _PARSER,
}
"""By long name, for every command that has the option and does not appear in `LIKE_SLURM`."""

LIKE_SLURM = {
    "sacct": ("federation", "qos"),
    "scancel": ("qos",),
    "squeue": ("qos",),
    "sreport": ("cluster", "federation"),
}
"""Commands with another option of that name, which takes all that Slurm's takes."""

SCONTROL: dict[str, str] = {
    "getaddrs": "the layout is ours: NODE: ADDRESS:PORT",
    "power": "action= is taken, and not used: ResumeProgram and SuspendProgram run",
    "reboot": "force and action= are refused",
    "takeover": "no backup controller answers: slurmctld runs on one host only",
    "create": "of nodes all or none are made",
    "show federation": "slurmdbd is asked; controllers have no connections to each other",
    "delete": "of nodes all or none are deleted; those of slurm.conf are kept",
    "setdebugflags": "lines are ours; some flags log nothing and are named; nodes= is refused",
}
"""Commands of scontrol."""

SACCTMGR: dict[str, str] = {
    "modify cluster": "FedState is stored and listed; slurmctld takes jobs in every state",
    "list stats": "kinds of messages are ours",
}
"""Verbs and entities of sacctmgr."""
