"""Which function answers which message: the controller's table of contents.

Rules change the cluster, queries look at it; control messages are the daemon's own and listed
in `service`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.queries.crontabs import show_crontab
from pyslurm_ng.ctld.queries.jobs import show_jobs, show_steps
from pyslurm_ng.ctld.queries.licenses import show_licenses
from pyslurm_ng.ctld.queries.nodes import show_nodes, show_partitions
from pyslurm_ng.ctld.queries.priority import show_priorities
from pyslurm_ng.ctld.queries.reservations import show_reservations
from pyslurm_ng.ctld.queries.triggers import show_triggers
from pyslurm_ng.ctld.queries.will_run import test_job
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.crontabs.store import store_crontab
from pyslurm_ng.ctld.rules.nodes.dynamic import create_nodes, delete_nodes
from pyslurm_ng.ctld.rules.nodes.future_nodes import take_future_node
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs, requeue_jobs, suspend_jobs
from pyslurm_ng.ctld.rules.orders.top import top_jobs
from pyslurm_ng.ctld.rules.reservation.reservations import delete_reservation, update_reservation
from pyslurm_ng.ctld.rules.steps.steps import complete_job, complete_step
from pyslurm_ng.ctld.rules.submission.submit import submit_job
from pyslurm_ng.ctld.rules.triggers.settings import clear_triggers, set_trigger
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.ctld.rules.update.update_nodes import update_nodes
from pyslurm_ng.ctld.rules.update.update_partition import delete_partition, update_partition
from pyslurm_ng.ctld.rules.update.update_step import update_step
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster

RuleFunction: TypeAlias = Callable[[Cluster, Any, Context], "Decision | Reject"]
QueryFunction: TypeAlias = Callable[[Cluster, Soft, SlurmConf, Any, Caller, int], "Struct | Reject"]

RULES: dict[str, RuleFunction] = {
    "CancelJobs": cancel_jobs,
    "ClearTriggers": clear_triggers,
    "CompleteJob": complete_job,
    "CompleteStep": complete_step,
    "CreateNodes": create_nodes,
    "DeleteNodes": delete_nodes,
    "DeletePartition": delete_partition,
    "DeleteReservation": delete_reservation,
    "HoldJobs": hold_jobs,
    "RequeueJobs": requeue_jobs,
    "SetTrigger": set_trigger,
    "TakeFutureNode": take_future_node,
    "StoreCrontab": store_crontab,
    "SubmitJob": submit_job,
    "SuspendJobs": suspend_jobs,
    "TopJobs": top_jobs,
    "UpdateJob": update_job,
    "UpdateNodes": update_nodes,
    "UpdatePartition": update_partition,
    "UpdateReservation": update_reservation,
    "UpdateStep": update_step,
}

QUERIES: dict[str, QueryFunction] = {
    "ShowCrontab": show_crontab,
    "ShowJobs": show_jobs,
    "ShowLicenses": show_licenses,
    "ShowNodes": show_nodes,
    "ShowPartitions": show_partitions,
    "ShowPriorities": show_priorities,
    "ShowReservations": show_reservations,
    "ShowSteps": show_steps,
    "ShowTriggers": show_triggers,
    "TestJob": test_job,
}
