"""squeue --follow: the list, and then a row for each job that has changed."""

import sys

from pyslurm_ng.cli.command import fail
from pyslurm_ng.cli.listing.event_stream import follow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

EXCLUDED = ("clusters", "iterate", "json", "start", "steps", "yaml")
_JOBS_AT_ONCE = 200
"""Jobs that are listed by one request."""


def check_options(options: "Mapping[str, str]") -> None:
    """Exit if --follow does not go with another option."""
    for name in EXCLUDED:
        if name in options:
            fail(f"squeue: error: --follow and --{name} exclude each other")


def follow_jobs(
    conf: "Mapping[str, str]",
    job_filter: "dict[str, Any]",
    show: "Callable[[dict[str, Any], bool], int]",
    *,
    has_states: bool,
    show_flags: int,
) -> int:
    """List jobs, then those that change, until the command is ended.

    Args:
        show: lists the jobs that a filter means, with a heading or without; returns an exit code.
        has_states: whether states were asked for; otherwise jobs are also shown when they end.
    """
    shown_filter = dict(job_filter)
    if not has_states:
        for name in ("states", "state_flags"):
            shown_filter.pop(name, None)
        shown_filter["all_states"] = True
    request = {"filter": shown_filter, "flags": show_flags}
    for told in follow(conf, request, "squeue"):
        if "is_whole" in told:
            code = show(job_filter, True)
            if code:
                return code
        else:
            ids = list(dict.fromkeys(event["id"].partition("%")[0] for event in told["jobs"]))
            # The id of an array's waiting tasks is cut before its limit: 27_[0-9%2]
            ids = [text + "]" * (text.count("[") - text.count("]")) for text in ids]
            for first in range(0, len(ids), _JOBS_AT_ONCE):
                show({**shown_filter, "jobs": ids[first : first + _JOBS_AT_ONCE]}, False)
        sys.stdout.flush()
    return 0
