"""Registrations: what a node's hardware, reboot and list of jobs do to it and to them."""

from __future__ import annotations

import pytest

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.ends import node_loss
from pyslurm_ng.ctld.rules.nodes import late_launches
from pyslurm_ng.ctld.rules.nodes.registration import register, strays
from pyslurm_ng.ctld.rules.nodes.reports import judge
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.node import Node, NodeFacts
from pyslurm_ng.model.states import JobState, NodeFlag, NodeState
from pyslurm_ng.wire.node_messages import JobTerminated, RunningJob
from tests.ctld.rules.started_jobs import WHOLE, launch_duty, running
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of

LATER_US = START_US + 60_000_000


def registered(
    cluster: Cluster,
    facts: NodeFacts = WHOLE,
    *jobs: RunningJob,
    conf: SlurmConf | None = None,
) -> Node:
    """Let node n1 register."""
    apply_all(cluster, register(cluster, 0, facts, jobs, conf or conf_of(), LATER_US))
    assert check(cluster) == []
    return cluster.node(0)


def with_fields(**fields: object) -> NodeFacts:
    values = {name: getattr(WHOLE, name) for name in WHOLE.__struct_fields__}
    return NodeFacts(**{**values, **fields})  # type: ignore[arg-type]


def launched(cluster: Cluster) -> Job:
    """Return a job whose script is known to run on n1."""
    job = running(cluster, node_list="n1")
    assert job.batch_node_id == 0
    done = ((0, launch_duty(cluster, job)),)
    apply(cluster, ev.DutiesDone(START_US, done))
    return job


def test_a_node_that_has_booted_sets_what_its_slurmd_was_given() -> None:
    """If only slurmd was restarted, what an administrator has written since stays."""
    cluster = cluster_of()
    said = {"extra": '{"a": 1}', "instance_id": "i1", "instance_type": "small"}
    node = registered(cluster, with_fields(**said, boot_id="first", daemon_start_us=1))
    assert (node.extra, node.instance_id, node.instance_type) == ('{"a": 1}', "i1", "small")
    by_hand = {"extra": "by hand", "instance_id": "i2", "instance_type": "large"}
    apply(cluster, ev.NodeUpdated(LATER_US, (0,), dict(by_hand)))
    node = registered(cluster, with_fields(**said, boot_id="first", daemon_start_us=2))
    assert (node.extra, node.instance_id, node.instance_type) == ("by hand", "i2", "large")
    node = registered(cluster, with_fields(**said, boot_id="second", daemon_start_us=3))
    assert (node.extra, node.instance_id, node.instance_type) == ('{"a": 1}', "i1", "small")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"cpus": 8}, "Low CPUs"),
        ({"sockets": 1}, "Low socket*core*thread count"),
        ({"real_memory_mib": 100}, "Low RealMemory (reported:100 < 100.00% of configured:64000)"),
        ({"gres": ()}, "gres/gpu count reported lower than configured (0 < 4)"),
    ],
)
def test_too_little_hardware(fields: dict[str, object], reason: str) -> None:
    cluster = cluster_of()
    node = registered(cluster, with_fields(**fields))
    assert node.flags & NodeFlag.INVALID_REG
    assert node.reason.startswith(reason)
    assert not cluster.node_index.columns.usable[0]
    node = registered(cluster)
    assert not node.flags & (NodeFlag.INVALID_REG | NodeFlag.DRAIN)
    assert node.reason == ""


@pytest.mark.parametrize(
    ("percent", "reason"),
    [
        ("90", ""),
        ("98.5", "Low RealMemory (reported:60000 < 98.50% of configured:64000)"),
    ],
)
def test_a_node_may_have_a_little_less_memory(percent: str, reason: str) -> None:
    """SlurmctldParameters=node_reg_mem_percent."""
    conf = conf_of(FOUR_NODES + f"SlurmctldParameters=node_reg_mem_percent={percent}\n")
    node = registered(cluster_of(conf), with_fields(real_memory_mib=60000), conf=conf)
    assert node.reason == reason


def test_a_pretended_node_may_have_less() -> None:
    conf = conf_of(FOUR_NODES + "SlurmdParameters=config_overrides\n")
    node = registered(cluster_of(conf), with_fields(cpus=1, gres=()), conf=conf)
    assert not node.flags


@pytest.mark.parametrize(
    ("return_to_service", "silent", "state"),
    [
        (0, True, NodeState.DOWN),
        (1, True, NodeState.IDLE),
        (1, False, NodeState.DOWN),
        (2, True, NodeState.IDLE),
        (2, False, NodeState.DOWN),
    ],
)
def test_return_to_service(return_to_service: int, silent: bool, state: NodeState) -> None:
    """What an operator took down stays down; silence is forgiven as configured."""
    conf = conf_of(FOUR_NODES + f"ReturnToService={return_to_service}\n")
    cluster = cluster_of(conf)
    reason = "Not responding" if silent else "broken fan"
    apply_all(cluster, node_loss.nodes_down(cluster, (0,), reason, START_US, for_silence=silent))
    assert registered(cluster, conf=conf).state == state


def test_reboot_loses_its_jobs() -> None:
    cluster = cluster_of()
    registered(cluster)
    job = launched(cluster)
    node = registered(cluster, with_fields(boot_id="two"))
    assert job.state == JobState.PENDING and job.attempt == 1
    assert (node.state, node.reason) == (NodeState.DOWN, "Node unexpectedly rebooted")


def test_restarted_slurmd_that_knows_its_jobs_keeps_them() -> None:
    cluster = cluster_of()
    registered(cluster)
    job = launched(cluster)
    registered(cluster, WHOLE, RunningJob(job.job_id, 0, []))
    assert job.state == JobState.RUNNING


def test_script_that_a_node_does_not_know_is_lost() -> None:
    """Its spool was wiped; the job is run again instead of waiting for ever."""
    cluster = cluster_of()
    registered(cluster)
    job = launched(cluster)
    registered(cluster)
    assert (job.state, job.attempt) == (JobState.PENDING, 1)


@pytest.mark.parametrize("delay_s", [0, 600])
def test_a_lost_job_waits_for_as_long_as_the_site_says(delay_s: int) -> None:
    """requeue_delay, and the second that Slurm adds to it."""
    conf = conf_of(FOUR_NODES + f"SchedulerParameters=requeue_delay={delay_s}\n")
    cluster = cluster_of(conf)
    registered(cluster, conf=conf)
    job = launched(cluster)
    registered(cluster, with_fields(boot_id="two"), conf=conf)
    assert job.begin_us == LATER_US + (delay_s + 1) * 1_000_000


def test_script_not_yet_launched_is_not_lost() -> None:
    """Its order is still open and will be sent again."""
    cluster = cluster_of()
    registered(cluster)
    job = running(cluster, node_list="n1")
    registered(cluster)
    assert job.state == JobState.RUNNING


@pytest.mark.parametrize(
    ("limit_s", "knows", "state"),
    [
        (10, False, JobState.PENDING),
        (10, True, JobState.RUNNING),  # its prolog may run for as long as it may
        (61, False, JobState.RUNNING),
    ],
)
def test_a_script_that_no_node_takes_is_missing(limit_s: int, knows: bool, state: JobState) -> None:
    """BatchStartTimeout: the node is there, and has not begun it. What may come late is ended."""
    conf = conf_of(FOUR_NODES + f"BatchStartTimeout={limit_s}\n")
    cluster = cluster_of(conf)
    apply_all(cluster, register(cluster, 0, WHOLE, [], conf, START_US))
    job = running(cluster, node_list="n1")
    asked = [node.node_id for node in late_launches.waiting_nodes(cluster, conf, LATER_US)]
    assert asked == ([0] if limit_s < 60 else [])
    jobs = [RunningJob(job.job_id, 0, [])] if knows else []
    apply_all(cluster, register(cluster, 0, WHOLE, jobs, conf, LATER_US, was_asked=True))
    assert check(cluster) == []
    if state == JobState.RUNNING:
        assert (job.state, job.attempt) == (state, 0)
        return
    (duty,) = cluster.duties[0].values()
    assert duty.kind == DutyKind.TERMINATE
    ended = JobTerminated(job.job_id, 0, duty.duty_id)
    apply_all(cluster, judge(cluster, 0, ended, conf, LATER_US))
    assert (job.state, job.attempt) == (state, 1)


@pytest.mark.parametrize("later_us", [0, 55_000_000])
def test_a_node_that_has_just_registered_is_given_time(later_us: int) -> None:
    """It has been told again; one that does not respond is silent, and lost later."""
    conf = conf_of(FOUR_NODES)
    cluster = cluster_of(conf)
    running(cluster, node_list="n1")
    registered_us = START_US + later_us
    apply_all(cluster, register(cluster, 0, WHOLE, [], conf, registered_us))
    late = late_launches.waiting_nodes(cluster, conf, LATER_US)
    assert bool(list(late)) == (later_us == 0)
    cluster.node(0).flags |= NodeFlag.NOT_RESPONDING
    assert not list(late_launches.waiting_nodes(cluster, conf, LATER_US))


def test_strays_are_recognized() -> None:
    cluster = cluster_of()
    job = launched(cluster)
    mine = RunningJob(job.job_id, 0, [])
    assert strays(cluster, 0, [mine]) == []
    assert strays(cluster, 1, [mine]) == [(job.job_id, 0)]
    assert strays(cluster, 0, [RunningJob(job.job_id, 1, []), RunningJob(99, 0, [])]) == [
        (job.job_id, 1),
        (99, 0),
    ]
