"""What happens to jobs and nodes, for `squeue --follow` and `scontrol watch`.

A connection that is lost is made again, and the events go on where they were; where slurmctld no
longer knows them, the caller is told that it has missed some.
"""

from pyslurm_ng.cli.command import connect, say
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, TypeAlias

    Told: TypeAlias = dict[str, Any]
_PAUSE_S = 1.0
_MOST_PAUSE_S = 15.0


def follow(conf: "Mapping[str, str]", request: "Told", command: str) -> "Iterator[Told]":
    """Yield what slurmctld tells, for ever: first that it has begun, then events.

    Whatever has `is_whole` is a beginning; with False some events were missed.

    Raises:
        SlurmError: it is refused.
    """
    import gc
    from time import sleep

    gc.enable()  # this command does not end soon
    client = connect(dict(conf))
    after, pause_s, has_begun = -1, _PAUSE_S, False
    while True:
        try:
            for told in client.stream("FollowEvents", {**request, "after": after}):
                pause_s = _PAUSE_S
                after = max(after, told["sequence"])
                if "why" in told:
                    after = told["sequence"]
                elif "is_whole" not in told or not told["is_whole"] or not has_begun:
                    has_begun = True
                    yield told
        except SlurmError as error:
            client.close()
            if not has_begun or not _is_away(error):
                raise
            if pause_s == _PAUSE_S:
                say(f"{command}: {error.text}; events go on when slurmctld is back")
        else:
            continue  # it asked to be asked again
        sleep(pause_s)
        pause_s = min(2 * pause_s, _MOST_PAUSE_S)


def _is_away(error: SlurmError) -> bool:
    from pyslurm_ng.base.error_numbers import is_unreachable

    return is_unreachable(error.code)
