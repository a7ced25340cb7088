"""Burst buffers of a controller: which functions are called when, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from pyslurm_ng.conf.burst_buffer_conf import parse_burst_buffer_conf
from pyslurm_ng.ctld.burst_buffers.calls import Calls, Outcome
from pyslurm_ng.ctld.burst_buffers.job_buffers import JobBuffers
from pyslurm_ng.ctld.burst_buffers.job_files import JobFiles
from pyslurm_ng.ctld.burst_buffers.turns import Turns
from pyslurm_ng.ctld.rules.buffers.pools import Pool
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import Buffer, BufferState as S
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.policy.burst_buffer import REQUIRED
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.plan import Start
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, conf_of, submit
from tests.world.logs import LineLog
from tests.world.writer_room import WriterRoom


class PlayedCalls:
    """Answers calls at once, as the test says; those named in `held` never end."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.outcomes: dict[str, list[Outcome]] = {}
        self.held: set[str] = set()
        self.ended_early: list[str] = []

    async def call(
        self, stage: str, uid: int, function: str, arguments: Sequence[object], limit_s: float,
        *, is_optional: bool = False,
    ) -> Outcome:  # fmt: skip
        name = function.removeprefix("slurm_bb_")
        self.names.append(name)
        if name in self.held:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.ended_early.append(name)
                raise
        answers = self.outcomes.get(name)
        if answers:
            return answers.pop(0)
        return Outcome(0, is_missing=is_optional)


class Scene(WriterRoom):
    """A controller with burst buffers and one job that wants one."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.calls = PlayedCalls()
        self.conf = parse_burst_buffer_conf("")
        self.log = LineLog()
        self.errors: list[tuple[int, str, Outcome]] = []
        self.stages = JobBuffers(
            self.writer, self.calls, lambda: self.conf,  # type: ignore[arg-type]
            JobFiles(directory / "bb"), ScriptStore(directory / "scripts"),
            now_us=self.now_us, log=self.log, tell=lambda *error: self.errors.append(error),
        )  # fmt: skip
        self.stages.pools.pools = {"fast": Pool("fast", 4)}
        self.writer.observe(self.stages.applied)

    def job(self) -> int:
        job_id = submit(self.cluster, JobRequest(burst_buffer="#BB_LUA pool=fast capacity=3"))
        self.cluster.jobs[job_id].script_hash = ""
        buffer = Buffer(job_id, pool="fast", size=3)
        self.writer.record([ev.BufferChanged(START_US, job_id, buffer)])
        return job_id

    async def settled(self) -> None:
        for _ in range(50):
            self.sync()
            await asyncio.sleep(0)

    def state(self, job_id: int) -> int:
        return self.cluster.buffers[job_id].state


def played(work: Callable[[Scene], Coroutine[Any, Any, None]], directory: Path) -> Scene:
    """Run a scene on a loop, and end its functions."""

    async def whole() -> Scene:
        scene = Scene(directory)
        await work(scene)
        scene.stages.stop()
        await asyncio.sleep(0)
        return scene

    return asyncio.run(whole())


def test_the_functions_of_a_stage_in_in_order(tmp_path: Path) -> None:
    async def work(scene: Scene) -> None:
        scene.conf = parse_burst_buffer_conf("PollInterval=1")
        scene.calls.outcomes["test_data_in"] = [Outcome(0, "BUSY"), Outcome(0, "")]
        scene.calls.outcomes["real_size"] = [Outcome(0, "4")]
        job_id = scene.job()
        await scene.settled()
        assert scene.state(job_id) == S.STAGING_IN  # busy: it is asked again
        while scene.state(job_id) == S.STAGING_IN:
            await asyncio.sleep(0.05)
            scene.sync()
        assert scene.state(job_id) == S.STAGED_IN
        assert scene.cluster.buffers[job_id].size == 4

    names = played(work, tmp_path).calls.names
    assert names == ["setup", "data_in", "test_data_in", "test_data_in", "real_size"]


def test_room_is_taken_in_the_order_of_priority(tmp_path: Path) -> None:
    """Two jobs want more than there is: the later one of higher priority is the first."""

    async def work(scene: Scene) -> None:
        scene.stages._in_order = lambda job_ids: sorted(job_ids, reverse=True)
        first, second = scene.job(), scene.job()
        await scene.settled()
        assert (scene.state(first), scene.state(second)) == (S.PENDING, S.STAGED_IN)

    played(work, tmp_path)


def test_the_next_tasks_of_an_array_are_made_ready(tmp_path: Path) -> None:
    """Each by functions of its own; when one begins, the next one follows."""

    async def work(scene: Scene) -> None:
        scene.stages._tasks_ahead = lambda: 3
        array = submit(scene.cluster, JobRequest(burst_buffer="#BB_LUA"), ranges=((0, 99_999, 1),))
        scene.cluster.jobs[array].script_hash = ""
        scene.writer.record([ev.BufferChanged(START_US, array, Buffer(array))])
        await scene.settled()
        assert scene.calls.names.count("setup") == 3
        tasks = scene.cluster.job_index.arrays[array]
        assert [scene.state(job_id) for job_id in tasks.values()] == [S.STAGED_IN] * 3
        (start,) = (start for start in _starts(scene) if start.job_id == tasks[0])
        scene.writer.record(dispatch(scene.cluster, start, START_US))
        await scene.settled()
        assert scene.state(tasks[0]) == S.PRE_RUN
        assert scene.calls.names.count("setup") == 4
        scene.writer.record([ev.JobUpdated(START_US, tasks[1], {"priority": 0})])
        await scene.settled()
        assert scene.calls.names.count("setup") == 5  # one that is held keeps no other one back

    played(work, tmp_path)


def _starts(scene: Scene) -> Sequence[Start]:
    return Planner()(snapshot(scene.cluster, START_US), policy(conf_of())).starts


def test_scancel_ends_what_runs_and_tears_down(tmp_path: Path) -> None:
    async def work(scene: Scene) -> None:
        scene.calls.held.add("data_in")
        job_id = scene.job()
        await scene.settled()
        assert scene.calls.names == ["setup", "data_in"]
        scene.writer.record([ev.JobEnded(START_US, job_id, JobState.CANCELLED)])
        await scene.settled()
        assert scene.calls.ended_early == ["data_in"]
        assert scene.calls.names[-1] == "job_teardown"
        assert scene.state(job_id) == S.COMPLETE

    played(work, tmp_path)
    assert not [*(tmp_path / "bb").iterdir()]  # the job's files are gone


def test_a_function_that_fails_holds_its_job_only(tmp_path: Path) -> None:
    async def work(scene: Scene) -> None:
        scene.stages.pools.pools = {"fast": Pool("fast", 6)}
        scene.calls.outcomes["setup"] = [Outcome(-1, "no room")]
        first, second = scene.job(), scene.job()
        await scene.settled()
        job = scene.cluster.jobs[first]
        assert (job.priority, job.reason_text) == (0, "burst_buffer/lua: slurm_bb_setup: no room")
        assert scene.state(second) == S.STAGED_IN

    scene = played(work, tmp_path)
    assert [error[:2] for error in scene.errors] == [(1, "slurm_bb_setup")]


def test_a_stage_that_is_late_is_torn_down(tmp_path: Path) -> None:
    async def work(scene: Scene) -> None:
        scene.calls.outcomes["data_in"] = [Outcome(-1, "timeout", is_late=True)]
        job_id = scene.job()
        await scene.settled()
        assert scene.calls.names[-1] == "job_teardown"
        assert scene.state(job_id) == S.PENDING  # for its release
        assert scene.cluster.jobs[job_id].priority == 0

    played(work, tmp_path)


def test_a_function_in_its_own_process_has_an_end(tmp_path: Path) -> None:
    """An endless loop costs its time limit and nothing else."""
    script = tmp_path / "burst_buffer.lua"
    functions = [f"function {name}() return 0, 'fine' end" for name in REQUIRED]
    script.write_text("\n".join([*functions, "function slurm_bb_setup() while true do end end"]))

    async def work() -> tuple[Outcome, Outcome]:
        log = LineLog()
        calls = Calls(str(script), log)  # type: ignore[arg-type]
        late = calls.call("stage-in", 1, "slurm_bb_setup", (), 0.5)
        quick = calls.call("stage-in", 2, "slurm_bb_paths", (1, "a"), 60)
        first, second = await asyncio.gather(late, quick)
        return first, second

    late, quick = asyncio.run(work())
    assert late.is_late
    assert quick == Outcome(0, "fine")


def test_one_users_functions_leave_places_for_others() -> None:
    async def work() -> list[str]:
        turns, got = Turns(3, 2), list[str]()

        async def take(uid: int, name: str) -> None:
            await turns.take(uid)
            got.append(name)

        tasks = [asyncio.ensure_future(take(1, f"a{number}")) for number in range(4)]
        tasks.append(asyncio.ensure_future(take(2, "b")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert got == ["a0", "a1", "b"]
        tasks[2].cancel()
        turns.leave(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        return got

    assert asyncio.run(work()) == ["a0", "a1", "b", "a3"]
