"""MaxQueryTimeRange: about how much time an ordinary user may ask at once."""

from __future__ import annotations

from pyslurm_ng.base.errors import TEXTS, Errno
from pyslurm_ng.base.numbers import INFINITE, SECOND_US
from pyslurm_ng.dbd.admin.change import Actor, RefusedError
from pyslurm_ng.wire.dbd_messages import ListJobRecords
from pyslurm_ng.wire.report_messages import ListJobSizes


def refuse_wide_range(request: object, actor: Actor, most_s: int, now_us: int) -> None:
    """Refuse a question whose answer reads the jobs of too long a time.

    A question that names its jobs reads only these. Reports of usage read sums, not jobs.

    Raises:
        RefusedError: with Slurm's text.
    """
    if most_s == INFINITE or actor.is_operator:
        return
    match request:
        case ListJobRecords(jobs=[]):
            range_s = ((request.end_us or now_us) - request.start_us) // SECOND_US
        case ListJobSizes(jobs=[]):
            range_s = request.end_s - request.start_s
        case _:
            return
    if range_s > most_s:
        raise RefusedError(TEXTS[Errno.ESLURM_DB_QUERY_TOO_WIDE])
