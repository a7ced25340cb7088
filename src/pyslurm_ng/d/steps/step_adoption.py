"""A restarted slurmd takes up what its predecessor left: steps that run, ends not yet reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyslurm_ng.d.node.credential_checks import CredentialChecks
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.steps.step_ends import StepEnds
from pyslurm_ng.d.steps.step_runner import StepKey, StepRunner, step_name
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.auth import AuthError


def adopt_steps(
    node: LocalNode, credentials: CredentialChecks, runner: StepRunner, ends: StepEnds
) -> None:
    """Adopt all steps with files in the spool, then remove scripts of jobs that are over."""
    for path, key in list(node.spool.step_files()):
        try:
            records = step_record.read(path)
            if not records:
                continue  # only its name is kept, so that it is not started twice
            credential = credentials.decode(records["spec"]["credential"])
        except (OSError, KeyError, AuthError, step_record.StepRecordError) as error:
            node.log.error(f"{path}: cannot be taken up: {error}")
            continue
        if "reported" in records:
            _remember(node, ends, key, credential, records)
            continue
        spec, is_alive = records["spec"], step_record.is_alive(records.get("pid"))
        is_begun = runner.take_up(key, path, records)
        since_us = spec.get("since_us", 0) if is_alive or is_begun else 0  # of this boot
        node.core.adopt(credential, key[1], spec.get("duty", 0), since_us)
        if is_begun:
            node.log.info(f"launching {step_name(key)} again: slurmd died while it did so")
        elif "end" not in records and is_alive:
            node.log.info(f"reattaching {step_name(key)}")
            runner.adopt(key, path, spec)
        else:
            ends.ended(key, records)
    node.spool.remove_scripts({job_id for job_id, _, _ in runner.running()})


def _remember(
    node: LocalNode,
    ends: StepEnds,
    key: StepKey,
    credential: nm.JobCredential,
    records: Mapping[str, Any],
) -> None:
    """Know that an attempt ran here, so that a late order does not start it again."""
    if key[1] == STEP_BATCH and "end" in records:
        end = ends.end_of(records["end"])
        node.core.remember_ended(credential, records["spec"].get("duty", 0), end)
