"""A small cluster with reservations: time passes, passes run, every step is checked."""

from __future__ import annotations

from collections.abc import Callable

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.calendar import UTC, Calendar
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.reservation import reservation_due
from pyslurm_ng.ctld.rules.reservation.reservations import delete_reservation, update_reservation
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.rules.submission.submit import submit_job
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import node_state
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.sched.backfill import first_fit
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import Policy, policy
from pyslurm_ng.sched.frame.snapshot import Snapshot, snapshot
from pyslurm_ng.wire.job_messages import SubmitJob
from pyslurm_ng.wire.query_messages import DeleteReservation, UpdateReservation
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of

PlanFunction = Callable[[Snapshot, Policy], Plan]
MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
ROOT = Caller(uid=0, gid=0, user_name="root", is_admin=True, is_operator=True)
ALICE = Caller(uid=1001, gid=1001, user_name="alice", group_name="alice", groups=("alice", "hpc"))
BOB = Caller(uid=1002, gid=1002, user_name="bob", group_name="bob")


class Room:
    """A cluster of four nodes of sixteen cores, and its time."""

    def __init__(
        self, more: str = "", calendar: Calendar = UTC, plan: PlanFunction = first_fit.plan
    ) -> None:
        self.plan = plan
        self.conf = conf_of(f"{FOUR_NODES}\n{more}\n")
        self.cluster = cluster_of(self.conf)
        self.now_us = START_US
        self.calendar = calendar

    def apply(self, events: list[ev.AnyEvent]) -> None:
        """Apply events, through their stored form, and check the cluster."""
        apply_all(self.cluster, ev.decode_batch(ev.encode_batch(events)))
        assert check(self.cluster) == []

    def context(self, who: Caller) -> Context:
        """Return a rule's surroundings now."""
        return Context(self.conf, self.now_us, who, self.calendar)

    # Reservations -------------------------------------------------------------------------------

    def answer(
        self, name: str = "", *, create: bool, who: Caller = ROOT, **settings: str | int
    ) -> Decision | Reject:
        """Return what the rule answers; keys `users_` stand for `users+`."""
        typed = {key.replace("_", "+"): str(value) for key, value in settings.items()}
        request = UpdateReservation(bytes(16), name, typed, create)
        outcome = update_reservation(self.cluster, request, self.context(who))
        if isinstance(outcome, Decision):
            self.apply(list(outcome.events))
        return outcome

    def make(self, name: str = "r", **settings: str | int) -> Reservation:
        """Make a reservation, from now for two hours for alice unless told otherwise."""
        if not {"users", "accounts", "groups", "qos"} & set(settings):
            settings["users"] = "alice"
        given = {"starttime": self.now_us, "duration": 120, **settings}
        outcome = self.answer(name, create=True, **given)
        assert isinstance(outcome, Decision), outcome
        return self.cluster.reservations[outcome.reply.name]

    def refused(self, name: str = "r", **settings: str | int) -> int:
        """Return the number that making a reservation is refused with."""
        given = {"starttime": self.now_us, "duration": 120, "users": "alice", **settings}
        outcome = self.answer(name, create=True, **given)
        assert isinstance(outcome, Reject), outcome
        return outcome.code

    def change(self, name: str = "r", **settings: str | int) -> Reservation:
        """Change a reservation."""
        outcome = self.answer(name, create=False, **settings)
        assert isinstance(outcome, Decision), outcome
        return self.cluster.reservations[name]

    def not_changed(self, name: str = "r", **settings: str | int) -> int:
        """Return the number a change is refused with."""
        outcome = self.answer(name, create=False, **settings)
        assert isinstance(outcome, Reject), outcome
        return outcome.code

    def delete(self, name: str = "r", who: Caller = ROOT) -> int:
        """Delete a reservation; return 0 or the number it is refused with."""
        request = DeleteReservation(bytes(16), name)
        outcome = delete_reservation(self.cluster, request, self.context(who))
        if isinstance(outcome, Reject):
            return outcome.code
        self.apply(list(outcome.events))
        return 0

    def names(self, reservation: Reservation | str = "r") -> list[str]:
        """Return the names of a reservation's nodes."""
        if isinstance(reservation, str):
            reservation = self.cluster.reservations[reservation]
        return self.cluster.node_names(reservation.node_ids)

    def flags(self, name: str) -> int:
        """Return a node's flags."""
        node = self.cluster.node(self.cluster.node_by_name[name])
        return node_state(self.cluster, node)[1]

    # Jobs and time ------------------------------------------------------------------------------

    def submit(self, who: Caller = ALICE, **request: object) -> Job | int:
        """Submit a job; return it, or the number it is refused with."""
        message = SubmitJob(bytes(16), JobRequest(**request), b"#!/bin/sh\n")  # type: ignore[arg-type]
        outcome = submit_job(self.cluster, message, self.context(who))
        if isinstance(outcome, Reject):
            return outcome.code
        self.apply(list(outcome.events))
        return self.cluster.jobs[outcome.reply.job_id]

    def job(self, who: Caller = ALICE, **request: object) -> Job:
        """Return a job that is accepted."""
        job = self.submit(who, **request)
        assert isinstance(job, Job), job
        return job

    def run_pass(self) -> Plan:
        """Plan and dispatch; every start the pass wants must still be allowed."""
        plan = self.plan(snapshot(self.cluster, self.now_us), policy(self.conf))
        for start in plan.starts:
            events = dispatch(self.cluster, start, self.now_us)
            assert events, start
            self.apply(events)
        return plan

    def advance(self, by_us: int = 0) -> None:
        """Let time pass, and what it brings about happen."""
        self.now_us += by_us
        self.apply(timers.due(self.cluster, self.conf, {}, self.now_us))
        self.apply(reservation_due.due(self.cluster, self.conf, self.now_us, self.calendar))

    def places(self, job: Job) -> list[str]:
        """Return the nodes a job runs on."""
        return self.cluster.node_names([alloc.node_id for alloc in job.nodes])
