"""Power saving: idle nodes sleep, jobs and administrators wake them, beside Slurm 22.05."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import INFINITE, REQ_REBOOT, SECOND_US
from pyslurm_ng.base.state_names import node_state_full, node_state_words
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.programs.power_programs import resume_file
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.nodes import power
from pyslurm_ng.ctld.rules.nodes.registration import register
from pyslurm_ng.ctld.rules.programs import programs
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.rules.starts.preparation import preparation
from pyslurm_ng.ctld.rules.update.update_nodes import update_nodes
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster, node_state
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import Job, JobRequest, limit_end_us
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobFlag, JobState, NodeFlag, NodeState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire.query_messages import UpdateNodes
from tests.ctld.rules.started_jobs import WHOLE
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit

ROOT = Caller(0, 0, "root", is_admin=True, is_operator=True)
PROGRAMS = "SuspendProgram=/bin/off\nResumeProgram=/bin/on\nResumeTimeout=60\nSuspendTimeout=30\n"
N3 = 2


class Room:
    """A cluster that saves power, and its clock."""

    def __init__(self, extra: str = "SuspendTime=100\n") -> None:
        self.conf: SlurmConf = conf_of(FOUR_NODES + PROGRAMS + extra)
        self.cluster: Cluster = cluster_of(self.conf)
        self.now_us = START_US
        for node_id in range(4):
            self.boot(node_id, f"first{node_id}")

    def boot(self, node_id: int, boot_id: str) -> None:
        values = {name: getattr(WHOLE, name) for name in WHOLE.__struct_fields__}
        facts = NodeFacts(**{**values, "boot_id": boot_id})
        self.apply(register(self.cluster, node_id, facts, (), self.conf, self.now_us))

    def apply(self, events: list) -> None:  # type: ignore[type-arg]
        apply_all(self.cluster, events)
        assert check(self.cluster) == []

    def after(self, seconds: int) -> None:
        """Let time pass, and do what follows from it until nothing is left to do."""
        self.now_us += seconds * SECOND_US
        for _ in range(4):
            self.apply(timers.due(self.cluster, self.conf, {}, self.now_us))

    def tell(self, nodes: str, state: str) -> int | None:
        request = UpdateNodes(bytes(16), nodes, {"state": state})
        outcome = update_nodes(self.cluster, request, Context(self.conf, self.now_us, ROOT))
        if isinstance(outcome, Reject):
            return outcome.code
        self.apply(list(outcome.events))
        return None

    def start(self, **request: object) -> Job:
        """Submit a job and run a pass."""
        job_id = submit(self.cluster, JobRequest(**request), self.now_us)  # type: ignore[arg-type]
        prepare = preparation(self.conf)
        for start in Planner()(snapshot(self.cluster, self.now_us), policy(self.conf)).starts:
            self.apply(dispatch(self.cluster, start, self.now_us, prepare=prepare))
        return self.cluster.jobs[job_id]

    def shown(self, node_id: int) -> tuple[str, str]:
        state, flags = node_state(self.cluster, self.cluster.node(node_id))
        return node_state_full(state, flags), node_state_words(state, flags)[1]

    def asleep(self) -> list[int]:
        return [n.node_id for n in self.cluster.living_nodes() if n.flags & power.ASLEEP]


def test_idle_nodes_are_powered_down_after_their_time() -> None:
    """Not before, and not those with a job; `%` for SuspendTimeout, then `~`."""
    room = Room()
    job = room.start(node_list="n3", ntasks=1)
    room.after(99)
    assert room.asleep() == []
    room.after(1)
    assert room.asleep() == [0, 1, 3]
    assert room.shown(0) == ("IDLE+POWERING_DOWN", "idle%")
    assert not room.cluster.node_index.columns.usable[0]
    room.after(30)
    assert room.shown(0) == ("IDLE+POWERED_DOWN", "idle~")
    assert room.cluster.node_index.columns.usable[0]
    assert job.state == JobState.RUNNING


def test_a_job_wakes_its_nodes_and_begins_when_all_are_up() -> None:
    """CONFIGURING until then, and its time limit begins then."""
    room = Room()
    room.after(100)
    room.after(30)
    job = room.start(nodes_min=2, ntasks=2, partition="main")
    assert [alloc.node_id for alloc in job.nodes] == [2, 3]
    assert job.flags & JobFlag.CONFIGURING and job.flags & JobFlag.POWER_UP_NODE
    assert room.cluster.duties == {}
    assert limit_end_us(job) == room.now_us + (60 + 3600) * SECOND_US
    room.after(1)
    assert room.shown(2) == ("MIXED+POWERING_UP", "mix#")
    room.now_us += 20 * SECOND_US
    room.boot(2, "second")
    assert job.flags & JobFlag.CONFIGURING and room.cluster.duties == {}
    room.now_us += SECOND_US
    room.boot(3, "third")
    assert not job.flags & (JobFlag.CONFIGURING | JobFlag.POWER_UP_NODE)
    assert job.start_us == room.now_us and limit_end_us(job) == room.now_us + 3600 * SECOND_US
    assert [duty.kind for duty in room.cluster.duties[2].values()] == [DutyKind.LAUNCH]
    assert room.shown(3) == ("MIXED", "mix")


def test_what_is_awake_is_taken_first() -> None:
    """Whatever the weights of the nodes that sleep."""
    room = Room("SuspendTime=100\nSuspendExcNodes=n[1-2]\n")
    room.after(100)
    room.after(30)
    assert room.asleep() == [2, 3]  # of Weight=1, the others of Weight=10
    job = room.start(ntasks=1)
    assert [alloc.node_id for alloc in job.nodes] == [0]
    assert not job.flags & JobFlag.CONFIGURING


def test_a_slurmd_that_has_not_booted_is_no_node_that_is_up() -> None:
    """It may only have been started again, or its connection was lost, before the power went."""
    room = Room()
    room.after(100)
    room.after(30)
    room.boot(2, "first2")
    assert room.shown(2) == ("IDLE+POWERED_DOWN", "idle~")
    job = room.start(node_list="n3", ntasks=1)
    room.after(1)
    room.boot(2, "first2")
    assert room.shown(2)[1] == "mix#" and job.flags & JobFlag.CONFIGURING


def test_a_node_that_does_not_come_is_down_and_its_job_waits_again() -> None:
    """ResumeTimeout; a job that may not be requeued ends BOOT_FAIL."""
    room = Room()
    room.after(100)
    room.after(30)
    requeued = room.start(node_list="n3", ntasks=1)
    lost = room.start(node_list="n4", ntasks=1)
    lost.requeue = False
    room.after(1)
    room.after(59)
    assert room.shown(2)[1] == "mix#"
    room.after(1)
    assert room.shown(2) == ("DOWN+POWERED_DOWN", "down~")
    assert room.cluster.node(2).reason == power.FAILED
    assert requeued.state == JobState.PENDING and requeued.attempt == 1
    assert lost.state == JobState.BOOT_FAIL
    room.boot(2, "late")
    assert room.shown(2)[1] == "idle"


def test_a_job_that_ends_while_its_nodes_boot_owes_nothing() -> None:
    """The node comes up all the same, and is idle then."""
    room = Room()
    room.after(100)
    room.after(30)
    job = room.start(node_list="n3", ntasks=1)
    room.after(1)
    end = job_end.End(JobState.CANCELLED)
    room.apply(job_end.complete(room.cluster, job, end, room.now_us))
    assert job.state == JobState.CANCELLED and room.cluster.duties == {}
    assert room.shown(2) == ("IDLE+POWERING_UP", "idle#")
    room.boot(2, "second")
    assert room.shown(2) == ("IDLE", "idle")


def test_prolog_slurmctld_and_the_boot_run_together() -> None:
    """Nodes begin when both are over, whichever is the last."""
    room = Room("SuspendTime=100\nPrologSlurmctld=/bin/true\n")
    for prolog_first, boot_id in ((True, "a"), (False, "b")):
        room.after(100)
        room.after(30)
        job = room.start(node_list="n3", ntasks=1)
        room.after(1)
        together = programs.waits_with(room.cluster, job)
        prepare = preparation(room.conf)

        def prolog_ends() -> None:
            room.apply(
                programs.prologs_succeeded(room.cluster, together, room.now_us, prepare)  # noqa: B023
            )

        if prolog_first:
            prolog_ends()
            assert job.flags & JobFlag.CONFIGURING and room.cluster.duties == {}
            room.boot(2, boot_id)
        else:
            room.boot(2, boot_id)
            assert job.flags & JobFlag.CONFIGURING and room.cluster.duties == {}
            prolog_ends()
        assert not job.flags & JobFlag.CONFIGURING
        assert [duty.kind for duty in room.cluster.duties[2].values()] == [DutyKind.LAUNCH]
        end = job_end.End(JobState.COMPLETED)
        room.apply(
            job_end.complete(room.cluster, job, end, room.now_us, clean_nodes=frozenset((2,)))
        )


def test_administrators_power_nodes_up_and_down() -> None:
    """As Slurm 22.05 shows each step."""
    room = Room("SuspendTime=INFINITE\n")
    assert room.tell("n3", "POWER_DOWN") is None
    assert room.shown(2) == ("IDLE+POWER_DOWN", "idle!")
    room.after(1)
    assert room.shown(2)[1] == "idle%"
    assert room.tell("n3", "POWER_UP") is None
    assert room.shown(2) == ("IDLE+POWER_UP+POWERING_DOWN", "idle%")
    room.after(30)
    assert room.shown(2) == ("IDLE+POWERING_UP", "idle#")
    room.boot(2, "second")
    assert room.shown(2) == ("IDLE", "idle")
    assert room.tell("n3", "POWER_UP") is None  # it is up: no error, as in Slurm
    assert room.shown(2) == ("IDLE", "idle")


def test_power_down_waits_for_jobs_unless_it_is_forced() -> None:
    """ASAP drains meanwhile, and the drain ends with the power."""
    room = Room("SuspendTime=INFINITE\n")
    room.start(node_list="n3", ntasks=1)
    forced = room.start(node_list="n4", ntasks=1)
    assert room.tell("n3", "POWER_DOWN_ASAP") is None
    assert room.tell("n4", "POWER_DOWN_FORCE") is None
    room.after(1)
    assert room.shown(2)[0] == "MIXED+DRAIN+POWER_DOWN+POWER_DRAIN"
    assert room.shown(3) == ("IDLE+POWERING_DOWN", "idle%")
    assert forced.state == JobState.PENDING
    job = next(job for job in room.cluster.jobs.values() if job.job_id != forced.job_id)
    end = job_end.End(JobState.COMPLETED)
    clean = frozenset((2,))
    room.apply(job_end.complete(room.cluster, job, end, room.now_us, clean_nodes=clean))
    room.after(1)
    assert room.shown(2) == ("IDLE+POWERING_DOWN", "idle%")


def test_without_programs_no_node_is_powered() -> None:
    """The request is refused; a node of State=CLOUD takes no jobs."""
    conf = conf_of(FOUR_NODES + "SuspendTime=10\nNodeName=c1 State=CLOUD\n")
    cluster = cluster_of(conf_of(FOUR_NODES))
    apply_all(cluster, configure(cluster, conf, START_US))
    assert not cluster.node_index.columns.usable[4]
    request = UpdateNodes(bytes(16), "n1", {"state": "POWER_DOWN"})
    refused = update_nodes(cluster, request, Context(conf, START_US, ROOT))
    assert isinstance(refused, Reject) and refused.code == Errno.ESLURM_INVALID_NODE_STATE
    assert timers.due(cluster, conf, {}, START_US + 1000 * SECOND_US) == []


@pytest.mark.parametrize(
    ("extra", "asleep"),
    [
        ("SuspendTime=100\nSuspendExcNodes=n[1,3]\n", [1, 3]),
        ("SuspendTime=100\nSuspendExcParts=gpu\n", [2, 3]),
        ("SuspendTime=100\nSuspendExcNodes=n[3-4]:1\n", [0, 1, 2]),
        ("SuspendTime=INFINITE\n", []),
        ("SuspendTime=100\nSuspendRate=2\n", [0, 1]),
        ("SuspendTime=100\nPartitionName=late Nodes=n1 SuspendTime=1000\n", [1, 2, 3]),
        ("SuspendTime=INFINITE\nPartitionName=soon Nodes=n1 SuspendTime=50\n", [0]),
    ],
)
def test_which_nodes_sleep(extra: str, asleep: list[int]) -> None:
    room = Room(extra)
    room.after(100)
    assert room.asleep() == asleep


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("CLOUD", NodeFlag.CLOUD),
        ("DRAIN", NodeFlag.DRAIN),
        ("DYNAMIC_FUTURE", NodeFlag.DYNAMIC_FUTURE),
        ("DYNAMIC_NORM", NodeFlag.DYNAMIC_NORM),
        ("FAIL", NodeFlag.FAIL),
        ("INVALID_REG", NodeFlag.INVALID_REG),
        ("NOT_RESPONDING", NodeFlag.NOT_RESPONDING),
    ],
)
def test_suspend_exc_states(word: str, flag: NodeFlag) -> None:
    """A node in such a state is powered down, too, unless SuspendExcStates names the state."""
    for states, sleeps in (("", True), (f"SuspendExcStates={word}\n", False)):
        room = Room(f"SuspendTime=100\n{states}")
        room.apply([ev.NodeUpdated(room.now_us, (2,), {"flags": int(flag)})])
        room.after(100)
        assert (2 in room.asleep()) == sleeps


@pytest.mark.parametrize("word", ["DOWN", "RESERVED", "MAINTENANCE"])
def test_suspend_exc_states_that_are_no_flags(word: str) -> None:
    for states, sleeps in (("", True), (f"SuspendExcStates={word}\n", False)):
        room = Room(f"SuspendTime=100\n{states}")
        flags = frozenset(("MAINT",)) if word == "MAINTENANCE" else frozenset()
        if word == "DOWN":
            room.apply([ev.NodesDown(room.now_us, (2,), "fan")])
        else:
            kept = Reservation("r", room.now_us, room.now_us + 10**12, (2,), flags=tuple(flags))
            room.apply([ev.ReservationCreated(room.now_us, kept)])
            active = replace(kept, is_active=True)
            room.apply([ev.ReservationUpdated(room.now_us, active)])
        room.after(100)
        assert (2 in room.asleep()) == sleeps


@pytest.mark.parametrize("word", ["POWERING_DOWN", "POWERING_UP", "REBOOT"])
def test_suspend_exc_states_that_are_never_powered_down(word: str) -> None:
    """Such nodes are on their way; the words are taken."""
    flag = NodeFlag.REBOOT_REQUESTED if word == "REBOOT" else NodeFlag[word]
    room = Room(
        f"SuspendTime=100\nSuspendExcStates={word}\nSuspendTimeout=600\nResumeTimeout=600\n"
    )
    room.apply([ev.NodeUpdated(room.now_us, (2,), {"flags": int(flag), "power_us": room.now_us})])
    room.start(node_list="n3", ntasks=1)
    room.after(100)
    assert not room.cluster.node(2).flags & NodeFlag.POWERED_DOWN


def test_idle_on_node_suspend_makes_down_nodes_idle() -> None:
    """So that they are waked for jobs again."""
    room = Room("SuspendTime=100\nSlurmctldParameters=idle_on_node_suspend\n")
    request = UpdateNodes(bytes(16), "n3", {"state": "DOWN", "reason": "fan"})
    outcome = update_nodes(room.cluster, request, Context(room.conf, room.now_us, ROOT))
    assert not isinstance(outcome, Reject)
    room.apply(list(outcome.events))
    room.after(100)
    assert room.shown(2) == ("IDLE+POWERING_DOWN", "idle%")


def test_power_down_on_idle() -> None:
    """PowerDownOnIdle: right after a job, not before the first one."""
    room = Room("SuspendTime=INFINITE\nPartitionName=once Nodes=n3 PowerDownOnIdle=YES\n")
    room.after(100)
    assert room.asleep() == []
    job = room.start(node_list="n3", ntasks=1)
    room.after(5)
    end = job_end.End(JobState.COMPLETED)
    room.apply(job_end.complete(room.cluster, job, end, room.now_us, clean_nodes=frozenset((2,))))
    room.after(1)
    assert room.asleep() == [2]


def test_a_job_may_have_its_nodes_rebooted() -> None:
    """--reboot: it begins when they have booted; RebootProgram runs there as a duty."""
    room = Room("SuspendTime=INFINITE\nRebootProgram=/sbin/reboot\n")
    job = room.start(node_list="n3", ntasks=1, flags=REQ_REBOOT)
    assert room.shown(2)[1] == "mix#" and job.flags & JobFlag.CONFIGURING
    assert [duty.kind for duty in room.cluster.duties[2].values()] == [DutyKind.REBOOT]
    room.boot(2, "second")
    assert [duty.kind for duty in room.cluster.duties[2].values()] == [DutyKind.LAUNCH]
    assert not job.flags & JobFlag.CONFIGURING


def test_reboots_time_out_without_power_saving() -> None:
    """ResumeTimeout holds for --reboot, whether or not there are other programs."""
    room = Room("RebootProgram=/sbin/reboot\n")
    room.conf = conf_of(FOUR_NODES + "RebootProgram=/sbin/reboot\nResumeTimeout=60\n")
    job = room.start(node_list="n3", ntasks=1, flags=REQ_REBOOT)
    room.after(60)
    assert room.cluster.node(2).state == NodeState.DOWN
    assert job.state == JobState.PENDING
    assert not room.cluster.node(2).flags & NodeFlag.POWERING_UP


def test_the_file_for_the_resume_program() -> None:
    """SLURM_RESUME_FILE, as the manual shows it."""
    room = Room()
    room.after(100)
    room.after(30)
    job = room.start(nodes_min=2, ntasks=2, extra="mine", constraint="cpunode")
    assert json.loads(resume_file(room.cluster, (3,))) == {
        "all_nodes_resume": "n4",
        "jobs": [
            {
                "extra": "mine",
                "features": "cpunode",
                "job_id": job.job_id,
                "nodes_alloc": "n[3-4]",
                "nodes_resume": "n4",
                "oversubscribe": "NO",
                "partition": "main",
                "reservation": None,
            }
        ],
    }


def test_a_node_that_was_waked_sleeps_again() -> None:
    """What is kept of nodes from second to second is made anew when one is up."""
    room = Room()
    room.after(100)
    room.after(30)
    job = room.start(node_list="n3", ntasks=1)
    room.after(1)
    room.after(1)
    room.boot(2, "second")
    end = job_end.End(JobState.COMPLETED)
    clean = frozenset((2,))
    room.apply(job_end.complete(room.cluster, job, end, room.now_us, clean_nodes=clean))
    room.after(99)
    assert room.shown(2) == ("IDLE", "idle")
    room.after(1)
    assert room.shown(2)[1] == "idle%"


def test_resume_rate() -> None:
    """ResumeRate: so many nodes a minute, the rest when that is over."""
    room = Room("SuspendTime=100\nResumeRate=1\n")
    room.after(100)
    room.after(61)
    room.start(nodes_min=2, ntasks=2)
    room.after(1)
    assert [room.shown(2)[1], room.shown(3)[1]] == ["mix#", "mix~"]
    room.boot(2, "second")
    room.after(59)
    assert room.shown(3)[1] == "mix~"
    room.after(1)
    assert room.shown(3)[1] == "mix#"


def test_times_of_a_node() -> None:
    """SuspendTime= of a NodeName line comes before that of its partitions."""
    text = FOUR_NODES.replace("Feature=cpunode,ib", "Feature=cpunode,ib SuspendTime=10")
    more = "SuspendTime=INFINITE\nPartitionName=x Nodes=n3 SuspendTime=90\n"
    conf = conf_of(text + PROGRAMS + more)
    cluster = cluster_of(conf)
    assert [power.times_of(cluster, conf, node).suspend_s for node in (0, 2)] == [INFINITE, 10]


def test_times_of_a_partition() -> None:
    """The greatest of a node's partitions counts for SuspendTime and the two timeouts."""
    lines = "SuspendTime=5\n" + "".join(
        f"PartitionName=p{n} Nodes=n1 SuspendTime={n} SuspendTimeout={n} ResumeTimeout={n}\n"
        for n in (90, 70)
    )
    room = Room(lines)
    assert power.times_of(room.cluster, room.conf, 0) == power.Times(90, 90, 90, False)
    assert power.times_of(room.cluster, room.conf, 1) == power.Times(5, 30, 60, False)
