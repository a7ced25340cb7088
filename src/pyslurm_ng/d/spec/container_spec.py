"""The program of a task in a container: slurmstepd stands before it, see `d.container.task`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyslurm_ng.d.spec.node_setup import NodeSetup, SpecError
from pyslurm_ng.d.stepd.stepd_command import stepd_command
from pyslurm_ng.model.ids import STEP_BATCH, step_text

if TYPE_CHECKING:
    from pyslurm_ng.wire import node_messages as nm

_NOT_CONFIGURED = "Container runtime not configured or invalid: this node has no oci.conf"


def words_before(
    setup: NodeSetup,
    credential: nm.JobCredential,
    bundle: str,
    options: Sequence[str],
    tasks: int,
) -> list[str]:
    """Return the words before each program of a step; none without a container.

    Args:
        bundle: the directory of --container.
        options: `name=value` of the options that tell more about it, or about an image.
        tasks: the number of the step's tasks on this node.

    Raises:
        SpecError: this node runs no containers.
    """
    by_name = dict(word.partition("=")[::2] for word in options)
    if bundle:
        by_name["bundle"] = bundle
    if not bundle and "image" not in by_name and "name" not in by_name:
        return []
    if bundle and setup.oci is None:
        raise SpecError(_NOT_CONFIGURED)
    settings: dict[str, Any] = {
        "job": credential.job_id,
        "step": step_text(credential.step_id),
        "node": setup.node_name,
        "user": credential.user_name,
        "tasks": tasks,
        "is_batch": credential.step_id == STEP_BATCH,
        "options": by_name,
        "oci": {name: value for name, value in (setup.oci or {}).items() if value},
    }
    return [*stepd_command(), "container", json.dumps(settings)]
