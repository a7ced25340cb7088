"""What commands ask of a job's step manager, besides CreateStep and CompleteStep.

The step manager of a job with --stepmgr is part of the node daemon of the job's first node
(`d.stepmgr`). `srun --async` queues a step there and leaves; `swait` waits until steps are over.

    QueueStep -> StepQueued
    WaitSteps -> StepsOver
"""

import msgspec

from pyslurm_ng.model import bounds as b
from pyslurm_ng.wire.node_messages import LaunchStep
from pyslurm_ng.wire.step_messages import CreateStep
from pyslurm_ng.wire.table import RequestId, message, reply


@message(kind="QueueStep", roles="user", owner_rule="owner", rate="change")
class QueueStep(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Run a step as soon as there is room for it, without an srun: all streams are files.

    `launch` has no credential and no route.
    """

    request_id: RequestId
    job_id: b.JobIdField
    step: CreateStep
    launch: LaunchStep


@reply("StepQueued", max_bytes=65536)
class StepQueued(msgspec.Struct, frozen=True):
    """The step has its number; it runs now or later."""

    job_id: int
    step_id: int


@message(kind="WaitSteps", roles="user", owner_rule="owner", max_bytes=4096, stays_open=True)
class WaitSteps(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Answer when no step of a job runs or waits, but for the one that asks."""

    job_id: b.JobIdField
    but_step_id: b.Number32OrNone = -1


@reply("StepsOver", max_bytes=65536)
class StepsOver(msgspec.Struct, frozen=True):
    """All steps of the job are over, or the job itself is."""

    job_id: int
