"""Runs that were lost with their node: what waits for their end, and who says that it has come."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.base.numbers import END_CLEAN, REQ_EXCLUSIVE
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.ends import lost_runs
from pyslurm_ng.ctld.rules.ends.node_loss import nodes_down
from pyslurm_ng.ctld.rules.ends.requeue import RequeueRules
from pyslurm_ng.ctld.rules.nodes.registration import register, strays
from pyslurm_ng.ctld.rules.nodes.reports import judge
from pyslurm_ng.ctld.rules.nodes.silence import silent_nodes
from pyslurm_ng.ctld.rules.orders.job_orders import requeue_jobs
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.ctld.rules.update.update_nodes import update_nodes
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.query_messages import RequeueJobs, UpdateJob, UpdateNodes
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.world.passes import run_pass
from tests.world.site import Site

SECOND_US = 1_000_000
ROOT = Caller(0, 0, "root", "root", is_operator=True, is_admin=True)


def conf_with(policy: str, more: str = "") -> SlurmConf:
    return conf_of(
        FOUR_NODES
        + f"SlurmctldParameters=node_loss={policy}{more}\nSchedulerParameters=requeue_delay=1\n"
    )


class Loss(Site):
    """A job whose node falls silent."""

    def __init__(self, policy: str) -> None:
        super().__init__()
        self.conf = conf_with(policy)
        for node in self.cluster.living_nodes():
            self.apply(register(self.cluster, node.node_id, facts(node.spec.name), (), self.conf,
                                self.now_us))  # fmt: skip
        self.job = self.running()
        self.node = self.cluster.node(self.job.batch_node_id)
        seen = {self.node.node_id: self.now_us}
        self.pass_time(self.conf.slurmd_timeout)
        self.apply(silent_nodes(self.cluster, self.conf, seen, self.now_us))
        assert self.job.state == JobState.PENDING

    def apply(self, events: list[ev.AnyEvent]) -> None:
        super().apply(events)
        assert check(self.cluster) == []

    def pass_time(self, seconds: int) -> None:
        self.now_us += seconds * SECOND_US

    def go_on(self, seconds: int = 5) -> None:
        """Let time pass, and a pass start what may start."""
        self.pass_time(seconds)
        self.apply(timers.begin_times(self.cluster, self.now_us, self.cluster.job_index.ineligible))
        self.run_pass()

    def report(self, report: nm.Report) -> None:
        self.apply(judge(self.cluster, self.node.node_id, report, self.conf, self.now_us))

    def update_node(self, **settings: str) -> None:
        """Do what `scontrol update node` does with the lost node."""
        request = UpdateNodes(b"1" * 16, self.name, settings)
        decision = update_nodes(self.cluster, request, context(self))
        assert isinstance(decision, Decision)
        self.apply(decision.events)

    @property
    def name(self) -> str:
        return self.node.spec.name


def facts(name: str, boot: str = "first") -> NodeFacts:
    return NodeFacts(
        cpus=16, sockets=2, cores_per_socket=8, threads_per_core=1, real_memory_mib=64000,
        boot_id=f"{name}-{boot}",
    )  # fmt: skip


def test_as_in_slurm_the_second_run_says_that_the_first_was_never_confirmed() -> None:
    """node_loss=slurm: it starts.

    Its record says that the end of the first run was not confirmed.
    """
    loss = Loss("slurm")
    assert loss.sentences(loss.job)[-1].endswith("never confirmed (node_loss=slurm)")
    loss.go_on()
    assert loss.job.state == JobState.RUNNING
    comment = f"run 1 began, the end of run 0 on {loss.name} was never confirmed (node_loss=slurm)"
    assert loss.job.system_comment == comment
    assert "never confirmed" in loss.sentences(loss.job)[-1]


def test_a_run_that_was_confirmed_in_time_leaves_no_doubt() -> None:
    """The node answers before the second run begins: as in Slurm there is nothing to say."""
    loss = Loss("slurm")
    loss.report(nm.JobTerminated(loss.job.job_id, 0, 0))
    loss.go_on()
    assert loss.job.state == JobState.RUNNING
    assert loss.job.system_comment == ""
    assert loss.job.lost_runs == ()


@pytest.mark.parametrize("policy", ["slurm", "confirmed"])
def test_a_node_that_does_not_list_a_run_has_to_answer_for_it(policy: str) -> None:
    """Its registration may be older than the run; as in Slurm it is taken at its word."""
    scene, conf = Site(), conf_with(policy)
    job = scene.running()
    node_id = job.batch_node_id
    scene.apply([ev.DutiesDone(scene.now_us, tuple(
        (node_id, duty_id) for duty_id in scene.cluster.duties[node_id]
    ))])  # fmt: skip
    name = scene.cluster.node(node_id).spec.name
    scene.apply(register(scene.cluster, node_id, facts(name), (), conf, scene.now_us))
    assert job.state == JobState.PENDING
    assert job.waits_for_proof == (policy == "confirmed")
    asked = [(job.job_id, 0)] if policy == "confirmed" else []
    assert strays(scene.cluster, node_id, ()) == asked
    report = nm.JobTerminated(job.job_id, 0, 0)
    scene.apply(judge(scene.cluster, node_id, report, conf, scene.now_us))
    assert not job.waits_for_proof
    assert check(scene.cluster) == []


def test_the_loss_of_many_nodes_is_judged_job_by_job() -> None:
    """A switch takes 2,000 nodes with 2,000 jobs: each is looked at for its own nodes only."""
    text = FOUR_NODES.replace("n[3-4] Sockets", "n[3-2002] Sockets").replace("n[1-4]", "n[1-2002]")
    cluster = cluster_of(conf_of(text))
    for _ in range(2002):
        submit(cluster, JobRequest(flags=REQ_EXCLUSIVE))
    run_pass(cluster)
    ids = tuple(range(2002))
    looks = 0

    class Counted(frozenset[int]):
        def __contains__(self, key: object) -> bool:
            nonlocal looks
            looks += 1
            return super().__contains__(key)

    gone = Counted(ids)
    for job_id in cluster.job_index.active:
        lost_runs.lost(cluster, cluster.jobs[job_id], gone, START_US, node_loss="confirmed")
    assert 2000 <= looks <= 2 * len(cluster.job_index.active)


@pytest.mark.parametrize("policy", ["confirmed", "lease"])
def test_the_next_run_waits_for_proof(policy: str) -> None:
    """It is not even considered; squeue says Cleaning, explain says what it waits for."""
    loss = Loss(policy)
    loss.go_on(10_000)
    assert loss.job.state == JobState.PENDING
    assert loss.shown(loss.job)[0] == "Cleaning"
    (sentence,) = loss.sentences(loss.job)
    assert f"run 0 was lost with {loss.name}" in sentence
    assert f"node_loss={policy}" in sentence
    assert f"scontrol update NodeName={loss.name} State=DOWN Reason=fenced" in sentence
    assert lost_runs.open_on(loss.cluster, loss.name) == [(loss.job.job_id, 0)]


def _answers(loss: Loss) -> None:
    loss.report(nm.JobTerminated(loss.job.job_id, 0, 0))


def _ends_clean(loss: Loss) -> None:
    now_us = loss.now_us
    loss.report(nm.BatchEnded(loss.job.job_id, 0, 0, 0, now_us, now_us, END_CLEAN))


def _reboots(loss: Loss) -> None:
    node_id, new = loss.node.node_id, facts(loss.name, "second")
    loss.apply(register(loss.cluster, node_id, new, (), loss.conf, loss.now_us))


def _is_fenced(loss: Loss) -> None:
    loss.update_node(state="DOWN", reason="Fenced by hand")


def _is_retired(loss: Loss) -> None:
    others = [node for node in loss.conf.nodes if node.name != loss.name]
    text = FOUR_NODES.replace("n[1-2]", "n[1,2]").replace("n[3-4]", "n[3,4]")
    text = text.replace("n[1-4]", "ALL").replace(f"Nodes={loss.name} ", "Nodes=ALL ")
    text = text.replace(f",{loss.name[1:]}]", "]").replace(f"[{loss.name[1:]},", "[")
    conf = conf_of(text + "SlurmctldParameters=node_loss=confirmed\n")
    assert len(conf.nodes) == len(others)
    loss.apply(configure(loss.cluster, conf, loss.now_us))


def _policy_is_given_up(loss: Loss) -> None:
    loss.apply(configure(loss.cluster, conf_with("slurm"), loss.now_us))


@pytest.mark.parametrize(
    ("happens", "proof"),
    [
        (_answers, "{} answered"),
        (_ends_clean, "{} answered"),
        (_reboots, "{} came back with a new boot id"),
        (_is_fenced, "root said that the node is fenced"),
        (_is_retired, "{} was taken out of the configuration"),
        (_policy_is_given_up, "never confirmed"),
    ],
)
def test_what_counts_as_proof(happens: object, proof: str) -> None:
    """Each of them lets the next run begin, and its record says which one it was."""
    loss = Loss("confirmed")
    loss.go_on()
    happens(loss)  # type: ignore[operator]
    loss.go_on()
    assert loss.job.state == JobState.RUNNING
    assert proof.format(loss.name) in loss.job.system_comment


def context(loss: Loss) -> Context:
    return Context(loss.conf, loss.now_us, ROOT)


def _registers_without_it(loss: Loss) -> None:
    node_id = loss.node.node_id
    loss.apply(register(loss.cluster, node_id, facts(loss.name), (), loss.conf, loss.now_us))
    # It is asked, and its answer is what counts: a registration may be old mail.
    assert strays(loss.cluster, node_id, ()) == [(loss.job.job_id, 0)]


def _another_answers(loss: Loss) -> None:
    other = (loss.node.node_id + 1) % 4
    report = nm.JobTerminated(loss.job.job_id, 0, 0)
    loss.apply(judge(loss.cluster, other, report, loss.conf, loss.now_us))


def _script_ended(loss: Loss) -> None:
    """Its script is over, but it may have other steps there."""
    loss.report(nm.BatchEnded(loss.job.job_id, 0, 0, 0, loss.now_us, loss.now_us, 0))


def _is_set_down(loss: Loss) -> None:
    loss.update_node(state="DOWN", reason="broken")


def _is_resumed(loss: Loss) -> None:
    loss.update_node(state="RESUME")


def _begin_time_is_changed(loss: Loss) -> None:
    for starts in (loss.now_us + 60 * SECOND_US, loss.now_us):
        request = UpdateJob(
            request_id=b"1" * 16, jobs=[str(loss.job.job_id)], settings={"starttime": str(starts)}
        )
        decision = update_job(loss.cluster, request, context(loss))
        assert isinstance(decision, Decision)
        loss.apply(decision.events)


@pytest.mark.parametrize(
    "happens",
    [
        _registers_without_it,
        _another_answers,
        _script_ended,
        _is_set_down,
        _is_resumed,
        _begin_time_is_changed,
    ],
)
def test_events_that_prove_nothing(happens: object) -> None:
    """The job goes on waiting."""
    loss = Loss("confirmed")
    loss.go_on()
    happens(loss)  # type: ignore[operator]
    loss.go_on(1000)
    assert loss.job.state == JobState.PENDING
    assert loss.job.waits_for_proof


def test_a_policy_that_is_taken_up_later_holds_for_jobs_that_wait() -> None:
    """From slurm to confirmed by `scontrol reconfigure`."""
    loss = Loss("slurm")
    loss.apply(configure(loss.cluster, conf_with("confirmed"), loss.now_us))
    loss.go_on()
    assert loss.job.state == JobState.PENDING


def test_a_job_whose_nodes_are_all_lost_waits_for_each_of_them() -> None:
    """One answer of two is not enough."""
    scene = Site()
    conf = conf_with("confirmed")
    job = scene.running(nodes_min=2, nodes_max=2)
    ids = tuple(alloc.node_id for alloc in job.nodes)
    scene.apply(nodes_down(scene.cluster, ids, "x", scene.now_us, policy="confirmed",
                           rules=RequeueRules(delay_s=1)))  # fmt: skip
    for node_id in ids:
        assert job.waits_for_proof
        report = nm.JobTerminated(job.job_id, 0, 0)
        scene.apply(judge(scene.cluster, node_id, report, conf, scene.now_us))
    assert not job.waits_for_proof


def test_a_finished_job_that_is_requeued_waits_as_well() -> None:
    """--no-requeue, so it ended NODE_FAIL; `scontrol requeue` does not bring it to life twice."""
    scene = Site()
    job = scene.running()
    job.requeue = False
    (alloc,) = job.nodes
    scene.apply(nodes_down(scene.cluster, (alloc.node_id,), "x", scene.now_us, policy="confirmed"))
    assert job.state == JobState.NODE_FAIL
    job.requeue = True
    context = Context(conf_with("confirmed"), scene.now_us, ROOT)
    decision = requeue_jobs(
        scene.cluster, RequeueJobs(request_id=b"1" * 16, jobs=str(job.job_id)), context
    )
    assert isinstance(decision, Decision)
    scene.apply(decision.events)
    assert job.state == JobState.PENDING
    assert job.waits_for_proof
    assert not job.eligible_us


def test_what_is_known_survives_a_restart() -> None:
    """Lost runs are part of the Cluster and of its stored form."""
    loss = Loss("confirmed")
    again = Cluster.from_bytes(loss.cluster.to_bytes())
    assert again.jobs[loss.job.job_id].lost_runs == loss.job.lost_runs
    assert again.job_index.lost_on == {loss.name: {loss.job.job_id: None}}
    event = ev.LostRunsChanged(loss.now_us, loss.job.job_id, loss.job.lost_runs)
    assert decode_batch(encode_batch([event])) == [event]


def test_an_administrators_own_comment_stays() -> None:
    """SystemComment may hold something already."""
    loss = Loss("slurm")
    loss.job.system_comment = "seen"
    loss.go_on()
    assert loss.job.system_comment.startswith("seen; run 1 began, ")


def test_reason_words_of_a_fence() -> None:
    """The first word is what counts, not one somewhere in the text."""
    assert lost_runs.administrators_word("fenced", "ann") == "ann said that the node is fenced"
    assert lost_runs.administrators_word("FENCED: pulled the plug", "ann")
    assert not lost_runs.administrators_word("not fenced yet", "ann")
    assert not lost_runs.administrators_word("fencedoff", "ann")


def test_events_of_one_message_do_not_undo_each_other() -> None:
    """A lost run replaces only what was known of the same attempt and node."""
    loss = Loss("confirmed")
    run = msgspec.structs.replace(loss.job.lost_runs[0], node="n9", proof="x")
    job: Job = loss.job
    apply_all(loss.cluster, [ev.LostRunsChanged(loss.now_us, job.job_id, (run,))])
    assert [lost_run.node for lost_run in job.lost_runs] == [loss.name, "n9"]
    assert job.reason == Reason.BeginTime
    assert loss.now_us > START_US
