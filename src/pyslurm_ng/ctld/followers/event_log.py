"""What happened, as lines of slurmctld.log that administrators know from Slurm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.base.state_names import node_state_words
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster, node_state
from pyslurm_ng.model.states import JobFlag, JobState


class Log(Protocol):
    """Where lines go; nothing is made of events below `level`."""

    @property
    def level(self) -> int:
        """The most verbose level written."""

    def error(self, text: str) -> None:
        """Something is wrong."""

    def info(self, *texts: str) -> None:
        """Every day's news."""


INFO_LEVEL = 3
SUBMISSION_VERBS = ("_slurm_rpc_allocate_resources", "_slurm_rpc_submit_batch_job:")
"""How Slurm's log begins the line of a job of srun or salloc, and of a batch job."""


def _at_once(function: Callable[[], None]) -> None:
    function()


class EventLog:
    """Writes a line for each event that an administrator would look for.

    The lines of one turn of the loop are written together: one by one they took a twentieth of
    slurmctld's time for a submission.
    """

    def __init__(
        self,
        cluster: Cluster,
        log: Log,
        scheduling: Log,
        call_soon: Callable[[Callable[[], None]], object] = _at_once,
    ) -> None:
        """`scheduling` takes lines that tell what the scheduler did, besides `log`.

        Args:
            call_soon: runs a function at the end of the present turn.
        """
        self._cluster = cluster
        self._log = log
        self._scheduling = scheduling
        self._call_soon = call_soon
        self._lines: list[str] = []

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Write the lines of events just applied."""
        if max(self._log.level, self._scheduling.level) < INFO_LEVEL:
            return
        for event in events:
            for line in _LINES.get(type(event), ()):
                for text in line(self._cluster, event).splitlines():
                    self.say(text)

    def say(self, text: str) -> None:
        """Write a line at the end of this turn; at once if it is of an error. "" is none."""
        if text.startswith("error: "):
            self._write()
            self._log.error(text.removeprefix("error: "))
        elif text:
            self._lines.append(text)
            if len(self._lines) == 1:
                self._call_soon(self._write)

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            self._log.info(*lines)
        scheduled = [line for line in lines if line.startswith("sched: ")]
        if scheduled:
            self._scheduling.info(*scheduled)


def _names(cluster: Cluster, node_ids: Sequence[int]) -> str:
    """Return the nodes' names; of those removed from the configuration only how many they are."""
    names = [node.spec.name for node in cluster.nodes_of(node_ids)]
    removed = len(node_ids) - len(names)
    text = hostlist.fold(names)
    if removed:
        text = f"{text}{',' * bool(names)}({removed} removed)"
    return text


def _submitted(cluster: Cluster, event: ev.JobSubmitted) -> str:
    tasks = f" Array={event.request.array}" if event.array_count else ""
    verb = SUBMISSION_VERBS[bool(event.script_hash)]
    return (
        f"{verb} JobId={event.job_id}{tasks} User={event.user_name}({event.uid}) "
        f"Account={event.account} Partition={event.partition}"
    )


def _allocated(cluster: Cluster, event: ev.JobAllocated) -> str:
    nodes = _names(cluster, [alloc.node_id for alloc in event.nodes])
    cpus = sum(alloc.charged_cpus for alloc in event.nodes)
    return (
        f"sched: Allocate JobId={event.job_id} NodeList={nodes} #CPUs={cpus} "
        f"Partition={event.partition}"
    )


def _cancelled(cluster: Cluster, event: ev.JobCompleting | ev.JobEnded) -> str:
    """Return who ended a job before its time."""
    if event.cancelled_by == NO_VAL:
        return ""
    return f"_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={event.job_id} uid {event.cancelled_by}"


def _completing(cluster: Cluster, event: ev.JobCompleting) -> str:
    status = event.exit_code
    how = f"WTERMSIG {status & 0x7F}" if status & 0x7F else f"WEXITSTATUS {status >> 8 & 0xFF}"
    if event.state not in (JobState.COMPLETED, JobState.FAILED):
        how = JobState(event.state).name
    return f"_job_complete: JobId={event.job_id} {how}"


def _ended(cluster: Cluster, event: ev.JobEnded) -> str:
    return f"_job_complete: JobId={event.job_id} done ({JobState(event.state).name})"


def _requeued(cluster: Cluster, event: ev.JobRequeued) -> str:
    return f"Requeuing JobId={event.job_id}, restart {event.attempt}"


def _preempted(cluster: Cluster, event: ev.JobUpdated) -> str:
    """Return a line for each job that makes room, in the words that Slurm's logs have for it."""
    preemptor = event.fields.get("suspended_by", 0)
    if isinstance(preemptor, int) and preemptor > 0:
        return _made_room(event.job_id, "suspended", preemptor)
    victim_ids = event.fields.get("claim_victims", ())
    assert isinstance(victim_ids, (tuple, list))
    lines = []
    for victim_id in victim_ids:
        victim = cluster.jobs.get(victim_id)
        if victim is None or victim.preempt_us != event.time_us:
            continue  # it leaves anyway
        again = victim.preempt_mode == "REQUEUE" or victim.flags & JobFlag.REQUEUED
        lines.append(_made_room(victim_id, "requeued" if again else "killed", event.job_id))
    return "\n".join(lines)


def _made_room(victim_id: int, how: str, preemptor_id: int) -> str:
    return (
        f"preempted JobId={victim_id} has been {how} to reclaim resources for JobId={preemptor_id}"
    )


def _lost_runs(cluster: Cluster, event: ev.LostRunsChanged) -> str:
    lines = {
        (run.attempt, run.proof): hostlist.fold(
            [
                lost_run.node
                for lost_run in event.lost_runs
                if (lost_run.attempt, lost_run.proof) == (run.attempt, run.proof)
            ]
        )
        for run in event.lost_runs
    }
    parts = [
        f"run {attempt} on {nodes} is over: {proof}"
        if proof
        else f"run {attempt} was lost with {nodes}, it is not known whether it is over"
        for (attempt, proof), nodes in lines.items()
    ]
    return f"JobId={event.job_id} {'; '.join(parts)}"


def _down(cluster: Cluster, event: ev.NodesDown) -> str:
    return f"error: Nodes {_names(cluster, event.node_ids)} set DOWN: {event.reason}"


def _silent(cluster: Cluster, event: ev.NodesSilent) -> str:
    names = _names(cluster, event.node_ids)
    return (
        f"error: Nodes {names} not responding" if event.silent else f"Node {names} now responding"
    )


def _returned(cluster: Cluster, event: ev.NodesReturned) -> str:
    return f"node {_names(cluster, event.node_ids)} returned to service"


def _state_set(cluster: Cluster, event: ev.NodeUpdated) -> str:
    """Return the state in which an update left the nodes; that of the first, if they differ."""
    nodes = cluster.nodes_of(event.node_ids)
    if not nodes or event.fields.keys().isdisjoint(("state", "flags")):
        return ""
    word, _ = node_state_words(*node_state(cluster, nodes[0]))
    return f"update_node: node {_names(cluster, event.node_ids)} state set to {word.upper()}"


def _updated(cluster: Cluster, event: ev.NodeUpdated) -> str:
    reason = event.fields.get("reason")
    if not reason:
        return ""
    return f"update_node: node {_names(cluster, event.node_ids)} reason set to: {reason}"


def _reservation_set(cluster: Cluster, event: ev.ReservationCreated | ev.ReservationUpdated) -> str:
    reservation = event.reservation
    verb = "Created" if isinstance(event, ev.ReservationCreated) else "Updated"
    owners = "".join(
        f" {word}={','.join(names)}"
        for word, names in (("users", reservation.users), ("accounts", reservation.accounts))
        if names
    )
    nodes = _names(cluster, reservation.node_ids)
    return f"sched: {verb} reservation={reservation.name}{owners} nodes={nodes}"


def _reservation_deleted(cluster: Cluster, event: ev.ReservationDeleted) -> str:
    return f"sched: Deleted reservation={event.name}"


_LINES: dict[type, tuple[Callable[..., str], ...]] = {
    ev.JobSubmitted: (_submitted,),
    ev.JobAllocated: (_allocated,),
    ev.JobCompleting: (_cancelled, _completing),
    ev.JobEnded: (_cancelled, _ended),
    ev.JobUpdated: (_preempted,),
    ev.JobRequeued: (_requeued,),
    ev.LostRunsChanged: (_lost_runs,),
    ev.NodesDown: (_down,),
    ev.NodesSilent: (_silent,),
    ev.NodesReturned: (_returned,),
    ev.NodeUpdated: (_updated, _state_set),
    ev.ReservationCreated: (_reservation_set,),
    ev.ReservationUpdated: (_reservation_set,),
    ev.ReservationDeleted: (_reservation_deleted,),
}
