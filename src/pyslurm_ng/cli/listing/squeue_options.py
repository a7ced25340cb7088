"""What options of squeue mean together, and what it prints before its table."""

import os

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.cli.command import fail
from pyslurm_ng.cli.listing.list_format import date_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyslurm_ng.cli.listing.job_columns import Context


def choose_format(options: "dict[str, str]", on_line: "list[str]") -> None:
    """Leave the one format that counts; exit if the command line has two.

    Of the variables SQUEUE_FORMAT counts before SQUEUE_FORMAT2, and both give way to --long,
    --start and --steps.

    Args:
        on_line: the options of the command line in order; the others are of variables.
    """
    names = [name for name in on_line if name in ("format", "Format")]
    if len(set(names)) > 1:
        last = next(name for name in names if name != names[0])
        words = {"format": "-o (--format)", "Format": "-O (--Format)"}
        fail(f"squeue: error: {words[last]} is incompatible with {words[names[0]]}")
    if "long" in options and "format" in names:
        fail(
            "squeue: fatal: Options -o(--format) and -l(--long) are mutually exclusive. "
            "Please remove one and retry."
        )
    is_fixed = any(name in options for name in ("long", "start", "steps"))
    if not names and is_fixed:
        options.pop("format", None)
        options.pop("Format", None)
    elif not names and "format" in options:
        options.pop("Format", None)


def shows_closed(options: "Mapping[str, str]") -> bool:
    """Return whether jobs of hidden and closed partitions are listed: by --all, or if named."""
    return "all" in options or "partitions" in options


_PARAMETERS = (
    ("all         ", "all", "bool"), ("array       ", "array", "bool"),
    ("federation  ", "federation", "bool"), ("format      ", "format", "text"),
    ("iterate     ", "iterate", "number"), ("job_flag    ", "jobs", "flag"),
    ("jobs        ", "jobs", "text"), ("licenses    ", "licenses", "text"),
    ("local       ", "clusters", "bool"), ("names       ", "name", "text"),
    ("nodes       ", "nodelist", "nodes"), ("partitions  ", "partitions", "text"),
    ("priority    ", "priority", "bool"), ("reservation ", "reservation", "text"),
    ("sibling      ", "sibling", "bool"), ("sort        ", "sort", "text"),
    ("start_flag  ", "start", "flag"), ("states      ", "states", "text"),
    ("step_flag   ", "steps", "flag"), ("steps       ", "steps", "text"),
    ("users       ", "users", "text"),
)  # fmt: skip
"""Slurm's name of each option that -v prints, as wide as Slurm prints it, and how it is shown."""


def parameters(options: "Mapping[str, str]", verbose: int) -> bytes:
    """Return what -v prints first: each option, options or not."""
    ruler = "-----------------------------"
    lines = [ruler]
    shown = {"users": str(os.getuid()), **options} if "me" in options else options
    lines += [f"{name}= {_shown(shown.get(option), kind)}" for name, option, kind in _PARAMETERS]
    lines += [f"verbose     = {verbose}", ruler, "", "", ""]
    return "\n".join(lines).encode(errors="replace")


def folded(names: str) -> str:
    """Return a list of nodes as Slurm shows it; one that cannot be read as it is."""
    from pyslurm_ng.base.hostlist import HostlistError, expand_unique, fold_sorted

    try:
        return fold_sorted(expand_unique(names))
    except HostlistError:
        return names


def _shown(value: "str | None", kind: str) -> str:
    if kind == "bool":
        return "false" if value is None else "true"
    if kind == "flag":
        return "0" if value is None else "1"
    if kind == "nodes":
        return folded(value or "")
    return value or ("0" if kind == "number" else "(null)")


def headings(options: "Mapping[str, str]", context: "Context", records: int) -> bytes:
    """Return the lines that stand above a table: date, cluster, and with -v the number of rows."""
    lines = []
    is_dated = ("long" in options or "verbose" in options) and "iterate" not in options
    if "noheader" not in options:
        lines += [date_line(context.now_us)] if is_dated else []
        lines += [f"CLUSTER: {context.cluster_name}"] if "clusters" in options else []
    if "verbose" in options:
        lines.append(f"last_update_time={context.now_us // SECOND_US} records={records}")
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
