"""Triggers: what strigger asks the controller."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from pyslurm_ng.model import bounds as b
from pyslurm_ng.wire.table import RequestId, message, reply

EventName = Literal[
    "time",
    "fini",
    "down",
    "up",
    "drained",
    "draining",
    "resume",
    "fail",
    "idle",
    "reconfig",
    "burst_buffer",
    "primary_slurmctld_resumed_operation",
    "primary_slurmctld_acct_buffer_full",
    "primary_slurmdbd_failure",
    "primary_slurmdbd_resumed_operation",
]
"""`model.trigger.TRIGGER_EVENTS`."""
OffsetSeconds = Annotated[int, msgspec.Meta(ge=-32000, le=32000)]
"""The range of --offset."""


@message(kind="SetTrigger", roles="user", owner_rule="rule", rate="change", max_bytes=1 << 18)
class SetTrigger(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`strigger --set`: run a program when one of the events happens.

    `job` is an id as typed; then the nodes meant are those of the job. `nodes` of "" are all.
    """

    request_id: RequestId
    events: Annotated[list[EventName], msgspec.Meta(min_length=1, max_length=32)]
    program: b.PathText
    job: b.NameText = ""
    nodes: b.HostListText = ""
    offset_s: OffsetSeconds = 0
    is_permanent: bool = False


@message(kind="ClearTriggers", roles="user", owner_rule="rule", rate="change", max_bytes=1024)
class ClearTriggers(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`strigger --clear`: delete triggers; 0, and a uid of -1, mean any."""

    request_id: RequestId
    trigger_id: b.Number32 = 0
    job_id: b.JobIdField = 0
    uid: b.Number32OrNone = -1


@message(kind="ShowTriggers", roles="user", max_bytes=1024)
class ShowTriggers(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`strigger --get`: list all triggers."""


class TriggerShown(msgspec.Struct, frozen=True):
    """One trigger; `job_id` 0: of nodes, `nodes` "": of all."""

    trigger_id: int
    user: str
    uid: int
    events: list[str]
    program: str
    job_id: int
    nodes: str
    offset_s: int
    is_permanent: bool


@reply("TriggersShown")
class TriggersShown(msgspec.Struct, frozen=True):
    """All triggers, in the order in which they were set."""

    triggers: list[TriggerShown]
