"""What was accepted before there were bounds is read as it stands: journals outlive them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.ctld.recover import recover_cluster
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.journal.recovery import Layout, Recovery
from pyslurm_ng.journal.reserve import Reserve
from pyslurm_ng.journal.writer import JournalWriter
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest, NodeAlloc, Usage
from pyslurm_ng.model.node import NodeFacts, NodeGres
from pyslurm_ng.wire.node_messages import JobCredential, decode_credential, encode_credential
from tests.model.clusters import START_US, cluster_of, conf_of, submit

ODD = JobRequest(
    name="n" * 5000,
    wckey="w" * 200,
    comment="c" * (1 << 20),
    time_limit_min=-(2**63),
    umask=2**62,
    rlimits=(("RTPRIO", 99, 99),),  # type: ignore[arg-type]
    argv=("a" * 200_000,),
)


def test_a_batch_with_values_beyond_their_bounds_is_read_unchanged() -> None:
    """Not cut, not refused: what replays must be what happened."""
    batch: list[ev.AnyEvent] = [
        ev.JobSubmitted(5, 1, ODD, 0, 0, "u", "g", "a", "q", 1, "p", -(2**63)),
        ev.JobUpdated(6, 1, {"comment": "c", "tasks": [1, [2, 3]]}, ODD),
        ev.JobUpdated(6, 1, {"priority": 1}),
        ev.StepEnded(7, 1, 0, 3, 0, Usage(user_us=2**63 - 1, max_rss_node="n" * 500)),
        ev.NodeRegistered(8, 0, NodeFacts(os="x" * 9000, gres=(NodeGres("g" * 300, "", 1),)), 2),
        ev.JobEnded(9, 1, 3),
    ]
    decoded = decode_batch(encode_batch(batch))
    assert decoded == batch
    assert [type(event) for event in decoded] == [type(event) for event in batch]
    assert type(decoded[0].request) is JobRequest  # type: ignore[union-attr]


@given(st.integers(-(2**63), 2**63 - 1), st.text(max_size=300), st.text(max_size=2000))
def test_every_value_survives(number: int, name: str, text: str) -> None:
    request = JobRequest(time_limit_min=number, nice=number, wckey=name, node_list=text, name=text)
    batch: list[ev.AnyEvent] = [ev.JobUpdated(1, 1, {}, request)]
    assert decode_batch(encode_batch(batch)) == batch


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x91\x93\x01\x02", b"\x91\x93\x02\x05\xa1x"])
def test_what_is_malformed_is_still_refused(payload: bytes) -> None:
    """Only bounds are left out: a record of another shape is damage."""
    with pytest.raises(msgspec.DecodeError):
        decode_batch(payload)


def test_a_journal_of_before_the_bounds_is_recovered(tmp_path: Path) -> None:
    """C1: two such jobs are in the journals of clusters that run today."""
    layout = Layout(tmp_path)
    layout.create()
    recovery = Recovery(layout)
    list(recovery.frames())
    writer = JournalWriter(
        layout.journal,
        bytes(range(16)),
        recovery.position._replace(epoch=1),
        first_sequence=1,
        on_durable=lambda sequence: None,
        on_fatal=lambda why: None,
        reserve=Reserve(tmp_path / "reserve", 4096),
    )
    configured = configure(Cluster(), conf_of(), START_US)
    odd: ev.AnyEvent = ev.JobSubmitted(
        START_US, 1, ODD, 1, 1, "u", "g", "a", "q", 1, "main", -(2**63)
    )
    for batch in (configured, [odd]):
        writer.append(encode_batch(batch))
    writer.close()
    cluster, _ = recover_cluster(Recovery(layout), ScriptStore(tmp_path / "scripts"))
    assert cluster.jobs[1].time_limit_min == -(2**63)
    assert cluster.jobs[1].request.wckey == ODD.wckey
    assert check(cluster) == []


def test_a_checkpoint_of_before_the_bounds_is_read() -> None:
    cluster = cluster_of()
    job_id = submit(cluster, ODD, time_limit_min=-(2**63))
    again = Cluster.from_bytes(cluster.to_bytes())
    assert again.digest() == cluster.digest()
    assert again.jobs[job_id].request.comment == ODD.comment


def test_a_job_of_before_the_bounds_can_be_launched() -> None:
    """Its credential carries the request to the nodes."""
    credential = JobCredential(
        cluster="c", epoch=1, job_id=1, attempt=0, uid=1, gid=1, user_name="u", group_name="g",
        request=ODD, nodes=("n1",), allocs=(NodeAlloc(0, 1, b"\x01", 1),),
    )  # fmt: skip
    assert decode_credential(encode_credential(credential)) == credential
