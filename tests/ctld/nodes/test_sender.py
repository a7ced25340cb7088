"""Orders leave when durable, again when unanswered, and never for a duty that is gone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pyslurm_ng.base.numbers import END_CLEAN, SIGNAL_NODE_FAIL
from pyslurm_ng.ctld.history import TRUSTED_IDS
from pyslurm_ng.ctld.nodes.sender import RETRY_US
from pyslurm_ng.ctld.rules import restored_state
from pyslurm_ng.ctld.rules.ends.job_end import End, complete
from pyslurm_ng.ctld.rules.ends.node_loss import nodes_down
from pyslurm_ng.ctld.rules.nodes.silence import silent_nodes
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import JobState, NodeFlag
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire import node_messages as nm, table
from pyslurm_ng.wire.auth import Peer, body_digest
from pyslurm_ng.wire.messages import Done, ErrorReply
from pyslurm_ng.wire.node_loss_messages import NodeWord, NodeWordHeard, RelayWord, WordRelayed
from pyslurm_ng.wire.open_requests import PeerBusy, PeerGone
from tests.ctld.nodes.sender_room import SCRIPT, SIGNER, SenderRoom
from tests.model.clusters import START_US, conf_of, submit
from tests.wire.wire_room import identity


@pytest.fixture
def room(tmp_path: Path) -> SenderRoom:
    room = SenderRoom(tmp_path)
    for name in ("n1", "n2", "n3", "n4"):
        room.register(name)
    room.sync()
    room.wire.sent.clear()
    return room


def test_nodes_that_were_away_read_their_files_when_they_are_back(tmp_path: Path) -> None:
    """Just after a restart of slurmctld `scontrol reconfigure` finds no node."""
    room = SenderRoom(tmp_path)
    room.register("n1")
    room.sync()
    room.sender.reconfigure()
    room.register("n1")
    room.register("n2")
    room.register("n2")
    room.sync()
    told = [name for name, sent in room.wire.sent if isinstance(sent, nm.NodeReconfigure)]
    assert told == ["n1", "n2"]


def test_a_launch_leaves_only_when_its_allocation_is_durable(room: SenderRoom) -> None:
    """Nothing runs that a crash could make unknown."""
    job_id = room.start_job()
    room.settle()
    assert room.orders() == []
    room.sync()
    ((name, order),) = room.orders()
    assert isinstance(order, nm.LaunchBatch)
    assert (order.script, order.environment) == (SCRIPT, b"")
    credential = nm.decode_credential(SIGNER.open_credential(order.credential))
    assert (credential.job_id, credential.batch_host) == (job_id, name)
    assert credential.step_tasks == ((0,),)


def test_credentials_carry_wall_time_whatever_is_on_record(room: SenderRoom) -> None:
    """Finding C5: recorded time stayed ahead of the clock. Nodes refused each launch."""
    room.clock.at_us = START_US + 2 * 3600 * 1_000_000
    room.start_job()
    room.sync()
    ((_, order),) = room.orders()
    assert isinstance(order, nm.LaunchBatch)
    credential = nm.decode_credential(SIGNER.open_credential(order.credential))
    assert credential.issued_us == START_US
    assert credential.expires_us == START_US + nm.CREDENTIAL_LIFE_US


def test_orders_of_one_turn_to_one_node_are_one_message(room: SenderRoom) -> None:
    """A burst of launches costs a node one message."""
    for _ in range(5):
        room.start_job()
    room.sync()
    names = [peer for peer, _ in room.wire.sent]
    assert len(names) == len(set(names))
    assert len(room.orders()) == 5


def test_an_unanswered_order_is_sent_again_and_an_answered_one_is_not(room: SenderRoom) -> None:
    """Messages get lost; answers settle duties."""
    job_id = room.start_job()
    room.sync()
    room.clock.at_us += RETRY_US + 1
    room.sender.tick()
    room.sync()
    assert len(room.orders()) == 2
    (name, order), _ = room.orders()
    answers = room.say(name, nm.NodeReports([nm.DutyDone(job_id, 0, order.duty_id)]))
    room.sync()
    assert len(answers) == 1
    room.clock.at_us += RETRY_US + 1
    room.sender.tick()
    room.sync()
    assert len(room.orders()) == 2
    assert room.sender.open_count == 0


def test_a_report_is_confirmed_when_durable(room: SenderRoom) -> None:
    """Until then the node keeps it."""
    job_id = room.start_job()
    room.sync()
    ((name, order),) = room.orders()
    report = nm.BatchEnded(job_id, 0, order.duty_id, 0, START_US, START_US, END_CLEAN)
    answers = room.say(name, nm.NodeReports([report]))
    room.settle()
    assert answers == []
    room.sync()
    assert len(answers) == 1
    assert room.cluster.jobs[job_id].state == JobState.COMPLETED


def test_a_node_gets_all_its_duties_when_it_registers(room: SenderRoom) -> None:
    """Duties wait in the Cluster, not in a queue."""
    room.wire.error = PeerGone("away")
    room.start_job()
    room.sync()
    assert room.orders() == []
    room.wire.error = None
    name = next(name for name in ("n1", "n2", "n3", "n4") if name not in room.sender.nodes)
    room.register(name)
    room.sync()
    assert [peer for peer, _ in room.orders()] == [name]


def test_a_job_of_several_nodes_is_signed_once(room: SenderRoom) -> None:
    """Its credential names all of them: one for each would cost the square of their number."""
    job_id = submit(room.cluster, JobRequest(nodes_min=2, nodes_max=2, ntasks=2))
    for start in Planner()(snapshot(room.cluster, START_US), Policy()).starts:
        room.writer.record(dispatch(room.cluster, start, START_US))
    room.sync()
    signed = []
    for state in (JobState.CANCELLED, None):
        if state is not None:
            job = room.cluster.jobs[job_id]
            room.writer.record(complete(room.cluster, job, End(state), START_US))
        else:  # it is signed anew when it is sent again
            room.clock.at_us += RETRY_US + 1
            room.sender.tick()
        room.sync()
        ends = [order for _, order in room.orders() if isinstance(order, nm.TerminateJob)]
        assert len(ends) == 2
        signed.append({order.credential for order in ends})
        room.wire.sent.clear()
    assert [len(credentials) for credentials in signed] == [1, 1]
    assert signed[0] != signed[1]


def test_a_busy_node_is_tried_again_later(room: SenderRoom) -> None:
    """A full queue is not a lost node."""
    room.wire.error = PeerBusy("full")
    room.start_job()
    room.sync()
    room.wire.error = None
    room.clock.at_us += RETRY_US + 1
    room.sender.tick()
    room.sync()
    assert len(room.orders()) == 1


def test_a_lost_node_has_no_duties(room: SenderRoom) -> None:
    """A rule gives the node up, and its duties are removed."""
    room.start_job()
    room.sync()
    ((name, _),) = room.orders()
    node_id = room.cluster.node_index.by_name[name]
    room.cluster.duties.pop(node_id)
    room.clock.at_us += RETRY_US + 1
    room.sender.tick()
    room.sync()
    assert len(room.orders()) == 1


def test_an_attempt_that_should_not_be_there_is_ended(room: SenderRoom) -> None:
    """A node cut off for long comes back with a job that was given to another."""
    room.register("n2", [nm.RunningJob(77, 0, [])])
    room.sync()
    ((name, order),) = room.orders()
    assert (name, type(order)) == ("n2", nm.TerminateJob)
    assert (order.duty_id, order.job_id) == (0, 77)


def test_a_heartbeat_of_an_unknown_node_asks_it_to_register(room: SenderRoom) -> None:
    """After a restart of the controller nodes find it again; each is asked once in a while."""
    room.sender.nodes.discard("n3")
    room.say("n3", nm.Heartbeat(150, 900))
    room.say("n3", nm.Heartbeat(150, 900))
    asked = [peer for peer, sent in room.wire.sent if isinstance(sent, nm.NodeRegisterAgain)]
    assert asked == ["n3"]
    assert room.soft.node_load[room.cluster.node_index.by_name["n3"]].cpu_load_hundredths == 150


def test_a_silent_node_that_speaks_answers_again(room: SenderRoom) -> None:
    """The `*` goes."""
    node_id = room.cluster.node_index.by_name["n1"]
    room.writer.record([ev.NodesSilent(time_us=START_US, node_ids=(node_id,), silent=True)])
    before = room.cluster.node(node_id).flags
    room.say("n1", nm.Heartbeat())
    assert room.cluster.node(node_id).flags != before


def test_a_node_of_another_name_is_refused(room: SenderRoom) -> None:
    """The name is the credential's, and it must be configured."""
    (answer,) = room.register("n9")
    assert answer.text == "Invalid node name specified"  # type: ignore[attr-defined]
    assert "n9 is not in the configuration" in room.log.lines[-1]


def test_a_node_taken_out_of_service_ends_what_it_was_relieved_of(room: SenderRoom) -> None:
    """DOWN by an operator's word, yet alive: its job must not run on beside its repetition."""
    job_id = room.start_job()
    room.sync()
    name = room.orders()[0][0]
    node_id = room.cluster.node_index.by_name[name]
    room.wire.sent.clear()
    room.writer.record(nodes_down(room.cluster, (node_id,), "power supply", START_US))
    assert room.wire.sent == []
    room.sync()
    assert [peer for peer, _ in room.wire.sent] == [name]
    assert isinstance(room.wire.sent[0][1], nm.NodeRegisterAgain)
    room.register(name, [nm.RunningJob(job_id, 0, [STEP_BATCH])])
    room.sync()
    ((peer, order),) = room.orders()
    assert (peer, order) == (name, nm.TerminateJob(0, job_id, 0, SIGNAL_NODE_FAIL))


def relayed(room: SenderRoom, by: str, name: str, *over: tuple[int, int], **forged: str) -> object:
    """Let one node bring the word of another; return the controller's answer to that one."""
    node = identity("node", name)
    body = table.encode(NodeWord(list(over)))
    credential = identity(forged.get("role", "node"), name).authenticator.issue(
        identity(forged.get("role", "node"), name).peer, "slurmctld", "NodeWord", body_digest(body)
    )
    body = forged.get("body", "").encode() or body
    answers = room.say(by, RelayWord(credential, body))
    room.sync()
    (answer,) = answers
    if not isinstance(answer, WordRelayed):
        return answer
    admission = node.authenticator.admit(answer.credential, "NodeWordHeard", f"slurmd:{name}")
    assert admission.peer.role == "slurmctld"
    return table.decode_reply("NodeWordHeard", answer.body)


def lose_n3(room: SenderRoom) -> int:
    """Start a job and lose its node, with a policy that wants a proof; return the job's id."""
    for name in ("n1", "n2"):
        room.register(name)
    job_id = room.start_job()
    room.sync()
    lost = room.cluster.jobs[job_id].batch_node_id
    assert room.cluster.node(lost).spec.name == "n3"
    room.writer.record(nodes_down(room.cluster, (lost,), "x", START_US, policy="lease"))
    room.sync()
    return job_id


def test_a_node_that_is_cut_off_is_told_what_was_given_up(tmp_path: Path) -> None:
    """It is told through another node.

    Its report that the run is over is proof. It does not count as heard of.
    """
    room = SenderRoom(tmp_path)
    job_id = lose_n3(room)
    first = relayed(room, "n2", "n3")
    assert isinstance(first, NodeWordHeard)
    assert first.given_up == [(job_id, 0)]
    assert room.cluster.jobs[job_id].waits_for_proof
    second = relayed(room, "n2", "n3", (job_id, 0))
    assert isinstance(second, NodeWordHeard)
    assert second.given_up == []
    (run,) = room.cluster.jobs[job_id].lost_runs
    assert run.proof == "n3 said so through n2"
    assert 2 not in room.soft.last_seen_us


@pytest.mark.parametrize("forged", [{"role": "user"}, {"body": "\x91\x91\x92\x01\x00"}])
def test_a_report_that_the_node_did_not_sign_is_refused(
    tmp_path: Path, forged: dict[str, str]
) -> None:
    """A node that passes reports on can drop them, but not change them."""
    room = SenderRoom(tmp_path)
    job_id = lose_n3(room)
    assert isinstance(relayed(room, "n2", "n3", (job_id, 0), **forged), ErrorReply)
    assert room.cluster.jobs[job_id].waits_for_proof
    own = relayed(room, "n2", "n2", (job_id, 0))
    assert isinstance(own, NodeWordHeard)
    assert room.cluster.jobs[job_id].waits_for_proof


def test_a_node_that_is_back_is_asked_until_it_has_answered(tmp_path: Path) -> None:
    """Its registration alone may be old mail; an order that got lost is sent again."""
    room = SenderRoom(tmp_path)
    job_id = lose_n3(room)
    room.register("n3")
    room.sync()
    asked = [order for peer, order in room.orders() if peer == "n3"]
    assert [(order.job_id, order.attempt) for order in asked
            if isinstance(order, nm.TerminateJob)] == [(job_id, 0)]  # fmt: skip
    room.wire.sent.clear()
    room.clock.at_us += RETRY_US + 1
    for _ in range(3):
        room.say("n3", nm.Heartbeat())
        room.sync()
    again = [order for peer, order in room.orders() if peer == "n3"]
    assert len(again) == 1
    room.say("n3", nm.NodeReports([nm.JobTerminated(job_id, 0, 0)]))
    room.sync()
    assert not room.cluster.jobs[job_id].waits_for_proof
    room.clock.at_us += RETRY_US + 1
    room.wire.sent.clear()
    room.say("n3", nm.Heartbeat())
    room.sync()
    assert room.orders() == []


def test_heartbeats_are_answered_for_leases(tmp_path: Path) -> None:
    """Only with node_loss=lease."""
    room = SenderRoom(tmp_path)
    room.register("n1")
    assert room.say("n1", nm.Heartbeat()) == []
    assert room.say("n1", nm.Heartbeat(wants_answer=True)) == [Done()]


def seen(room: SenderRoom, name: str, epoch: int, newest_job_id: int, *jobs: nm.RunningJob) -> None:
    """Let a node register that has seen more than this controller has."""
    facts = msgspec.msgpack.encode(NodeFacts(boot_id="b"))
    room.say(name, nm.RegisterNode(facts, list(jobs), epoch=epoch, newest_job_id=newest_job_id))
    room.sync()


def test_ids_epochs_and_attempts_go_on_behind_those_of_a_node(room: SenderRoom) -> None:
    """RELIABILITY 8: without slurmdbd too; the node's later jobs end, and its orders are obeyed."""
    (job_id, *_) = [submit(room.cluster, JobRequest(name="j", ntasks=1)) for _ in range(2)]
    seen(room, "n1", 9, 700, nm.RunningJob(job_id, 0, []), nm.RunningJob(700, 0, []))
    assert room.cluster.epoch >= 9
    assert room.cluster.next_job_id == 701 + restored_state.MARGIN
    assert room.cluster.jobs[job_id].attempt == 1
    ended = {order.job_id for _, order in room.orders() if isinstance(order, nm.TerminateJob)}
    assert ended == {job_id, 700}
    epochs = {m.epoch for _, m in room.wire.sent if isinstance(m, nm.NodeOrders)}
    assert min(epochs) >= 9
    assert sum("node n1" in line for line in room.log.lines) >= 2
    # Another one, and the same again, are no news.
    lines = len([line for line in room.log.lines if "go on at" in line or "in command" in line])
    seen(room, "n2", 8, 650)
    seen(room, "n1", room.cluster.epoch, 700)
    told = [line for line in room.log.lines if "go on at" in line or "in command" in line]
    assert len(told) == lines


def test_a_node_cannot_use_up_ids_or_epochs(room: SenderRoom) -> None:
    """One that claims anything is not believed beyond a bound, and counted."""
    before = room.cluster.epoch, room.cluster.next_job_id
    seen(room, "n1", 2**62, TRUSTED_IDS + 5)
    assert (room.cluster.epoch, room.cluster.next_job_id) == before
    assert room.faults.counts["node_ahead"] == 2


def test_a_node_with_a_wrong_clock_is_not_dead(room: SenderRoom) -> None:
    """RELIABILITY 14: nothing starts there, but it is there: its jobs are not given up."""
    room.start_job()
    room.sync()
    ((name, _),) = room.orders()
    node = room.cluster.node(room.cluster.node_index.by_name[name])
    peer = Peer(0, 0, 0, "node", name, "h", "slurm")
    timeout_us = conf_of().slurmd_timeout * 1_000_000
    for cause in ("from_future", "expired"):
        room.clock.at_us += timeout_us - 1
        room.service.refused(cause, "clocks may differ by 300 s", peer)
        seen_us = {node.node_id: room.soft.last_seen_us[node.node_id]}
        events = silent_nodes(room.cluster, conf_of(), seen_us, room.clock.at_us + timeout_us - 1)
        assert events == []
        assert node.flags & NodeFlag.NOT_RESPONDING
    room.service.refused("bad_signature", "anybody says that", peer)
    room.service.refused("from_future", "unknown", None)
    room.service.refused("from_future", "unknown", Peer(0, 0, 0, "node", "n9", "h", "slurm"))
    assert room.soft.last_seen_us[node.node_id] == room.clock.at_us
    room.say(name, nm.Heartbeat())
    assert not node.flags & NodeFlag.NOT_RESPONDING
