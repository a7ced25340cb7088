"""Duties: what nodes still have to do for the controller."""

from enum import IntEnum

from msgspec import Struct


class DutyKind(IntEnum):
    """Kinds of duty, each idempotent on the node by (job, attempt)."""

    PREPARE = 1  # run the prolog and make the job known (interactive allocations, extern step)
    LAUNCH = 2  # start the batch script; implies the prolog on that node
    SIGNAL = 3  # signal steps, the script, or both
    TERMINATE = 4  # kill what is left, run the epilog, report usage
    SUSPEND = 5
    RESUME = 6
    REBOOT = 7
    TERMINATE_STEP = 8


class Duty(Struct, array_like=True, frozen=True, gc=False):
    """One order to one node; kept until the node reports it done or is lost.

    `duty_id` is unique in the cluster's life, so a report names exactly what it answers.
    """

    duty_id: int
    kind: int
    node_id: int
    job_id: int
    attempt: int
    created_us: int
    step_id: int = -1  # SIGNAL and TERMINATE_STEP: -1 for all steps
    signal: int = 0
    flags: int = 0  # SIGNAL_* bits
