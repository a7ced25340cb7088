"""Burst buffers of heterogeneous jobs: the first component's, which all wait for."""

from __future__ import annotations

from pyslurm_ng.ctld.rules.buffers import steps
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch_het
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import Buffer, BufferState as S
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import Reason
from tests.model.clusters import START_US, submit
from tests.world.buffer_scene import Scene


def test_all_components_wait_for_the_stage_in_and_for_pre_run() -> None:
    scene = Scene()
    first_id = scene.cluster.next_job_id
    leader = submit(scene.cluster, JobRequest(burst_buffer="#BB_LUA"), het_job_id=first_id)
    other = submit(scene.cluster, JobRequest(), het_job_id=first_id, het_offset=1)
    scene.record([ev.BufferChanged(START_US, leader, Buffer(leader, pool="fast", size=3))])
    scene.due()
    assert scene.state(leader) == S.STAGING_IN
    assert scene.starts() == []
    scene.record(steps.staged_in(scene.cluster.buffers[leader], 0, START_US))
    starts = scene.starts()
    assert [start.job_id for start in starts] == [leader, other]
    scene.record(dispatch_het(scene.cluster, starts, START_US))
    scene.due()
    assert scene.state(leader) == S.PRE_RUN
    assert [*scene.cluster.prologs] == [leader, other]
    assert {scene.cluster.jobs[job_id].reason for job_id in (leader, other)} == {Reason.Prolog}
    assert not scene.cluster.duties  # nodes of neither begin before slurm_bb_pre_run is over
