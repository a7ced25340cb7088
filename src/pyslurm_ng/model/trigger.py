"""Triggers: programs that the controller runs when something happens to nodes, jobs or itself."""

from msgspec import Struct

JOB_EVENTS = ("time", "fini")
"""What only a job can do: reach its time limit, end."""
NODE_EVENTS = ("down", "up", "drained", "draining", "resume", "fail", "idle")
"""What happens to nodes: any, those of a list, or those of a job."""
OWN_EVENTS = (
    "reconfig",
    "burst_buffer",
    "primary_slurmctld_resumed_operation",
    "primary_slurmctld_acct_buffer_full",
    "primary_slurmdbd_failure",
    "primary_slurmdbd_resumed_operation",
)
"""What happens to the configuration, burst buffers, the controller and its link to accounting."""
TRIGGER_EVENTS = (*JOB_EVENTS, *NODE_EVENTS, *OWN_EVENTS)


class Trigger(Struct, array_like=True, frozen=True, gc=False):
    """A program, whose it is, and what it waits for: any one of `events`.

    `job_id` is 0 for a trigger of nodes; then `nodes` is a host list, "" for all nodes. A trigger
    with `due_us` has seen its event. It runs then, with `seen` (nodes, the job or the event's name)
    as its last argument. `fired_us` is when a permanent one last ran.
    """

    trigger_id: int
    uid: int
    gid: int
    user_name: str
    program: str  # a path, and arguments after blanks
    events: tuple[str, ...]
    job_id: int = 0
    nodes: str = ""
    offset_s: int = 0
    is_permanent: bool = False
    due_us: int = 0
    seen: str = ""
    fired_us: int = 0

    def wish(self) -> tuple[object, ...]:
        """Return whose it is and what it is to do; no two triggers have this in common."""
        where = self.job_id, self.nodes, self.offset_s, self.is_permanent
        return self.uid, self.program, self.events, where
