"""Which question is answered by which query, and which steering request by which rule.

Questions about files and the configuration's text (ShowConfig, ShowTopology, GetBatchScript)
need the daemon's edges and are wired in `handlers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pyslurm_ng.ctld.queries import jobs, misc, nodes
from pyslurm_ng.ctld.rules import cancel, steer, update_job, update_nodes, update_partition
from pyslurm_ng.wire import query_messages as qm

QUERIES: dict[type[msgspec.Struct], Callable[..., Any]] = {
    qm.ShowJobs: jobs.show_jobs,
    qm.ShowSteps: jobs.show_steps,
    qm.ShowNodes: nodes.show_nodes,
    qm.ShowPartitions: nodes.show_partitions,
    qm.ShowLicenses: misc.show_licenses,
    qm.ShowReservations: misc.show_reservations,
    qm.ShowDiagnostics: misc.show_diagnostics,
}
"""Called as `(cluster, soft, conf, request, caller, now_us)`."""

RULES: dict[type[msgspec.Struct], Callable[..., Any]] = {
    qm.CancelJobs: cancel.cancel_jobs,
    qm.UpdateJob: update_job.update_job,
    qm.HoldJobs: steer.hold_jobs,
    qm.RequeueJobs: steer.requeue_jobs,
    qm.SuspendJobs: steer.suspend_jobs,
    qm.TopJobs: steer.top_jobs,
    qm.UpdateNodes: update_nodes.update_nodes,
    qm.UpdatePartition: update_partition.update_partition,
    qm.DeletePartition: update_partition.delete_partition,
}
"""Called as `(cluster, request, context)`."""
