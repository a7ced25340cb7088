"""What a rule may know besides the cluster and the request, and what it answers.

Structs, since each request makes one of each: a frozen dataclass takes five times as long to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pyslurm_ng.ctld.rules.calendar import UTC, Calendar

if TYPE_CHECKING:
    from pyslurm_ng.conf.slurm_conf import SlurmConf
    from pyslurm_ng.model.events import AnyEvent


class Caller(Struct, frozen=True):
    """The user that asks, by the kernel's or a signature's word; looked up before the rule runs.

    Attributes:
        is_passed: the site's scripts have seen the request, and the user's rights to what it asked
            for were checked before them: what scripts ask for needs no rights.
        notes: what the scripts have to tell the user.
        until_us: when the token ends by which the user asks; 0 without one.
    """

    uid: int
    gid: int
    user_name: str
    group_name: str = ""
    groups: tuple[str, ...] = ()  # names of all groups, for AllowGroups
    is_admin: bool = False  # root, SlurmUser or Administrator in accounting
    is_operator: bool = False  # admins too
    host: str = ""
    pid: int = 0
    is_passed: bool = False
    notes: tuple[str, ...] = ()
    until_us: int = 0


class Context(Struct, frozen=True):
    """One decision's surroundings: configuration, the time and the caller.

    Attributes:
        recent_submissions: jobs that the caller has submitted within the last hour, where
            job_submit/throttle needs it.
    """

    conf: SlurmConf
    now_us: int
    caller: Caller
    calendar: Calendar = UTC
    recent_submissions: int = 0


class Decision(Struct, frozen=True):
    """What follows from a request: events to record, a reply to send when they are durable.

    `reply` of None means a bare acknowledgement. `notes` are messages for the caller's stderr.
    `refused` is the number of the refusal that some of the things named met; the others change.
    """

    events: Sequence[AnyEvent] = ()
    reply: Struct | None = None
    notes: tuple[str, ...] = ()
    refused: int = 0
