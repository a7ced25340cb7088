"""Ending the processes of a step after its supervisor died.

Three ways, each enough by itself. A step's control group holds all its processes. Without one the
supervisor's template is the reaper of all that it leaves (see `stepd.template`), and says `swept`
in the step's file. If that is dead, too, processes are known by SLURM_JOB_ID and SLURM_STEP_ID in
their environment, which daemons inherit unless they clear it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.spool.batch_script import remove_script
from pyslurm_ng.d.stepd.step_cgroup import StepCgroup
from pyslurm_ng.daemon.process_tree import descendants, is_zombie, signal_below
from pyslurm_ng.model.ids import step_variable

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 2.0
_NO_PROCESS = -1


class OrphanedStep:
    """The processes that may be left of one step.

    Args:
        path: of the step's file.
        records: what it says.

    Attributes:
        ntasks: how many tasks it has on this node.
    """

    def __init__(self, job_id: int, step_id: int, path: str, records: Mapping[str, Any]) -> None:
        self._job_id, self._step_id = job_id, step_id
        self._path = path
        self._records = records
        self._spec: Mapping[str, Any] = records.get("spec") or {}
        plan = self._spec.get("cgroup")
        self._group = StepCgroup(plan) if plan else None
        self._usage: dict[str, int] = {}
        self.ntasks = len(self._spec.get("tasks", ()))

    async def end(self, limit_s: float, on_stuck: Callable[[], None]) -> None:
        """Kill until nothing is left; `on_stuck` is called once if that takes longer than limited.

        Unexpected exceptions are raised.

        Separate threads do the work: reading about a process may hang on a user's file system.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + limit_s
        is_told = False
        pause_s = _FIRST_PAUSE_S
        while True:
            turn = await _in_thread(loop, self.kill)
            while not turn.done():
                await asyncio.wait({turn}, timeout=_LONGEST_PAUSE_S)
                if loop.time() > give_up and not is_told:
                    is_told = True
                    on_stuck()
            if not turn.result():
                break
            if loop.time() > give_up and not is_told:
                is_told = True
                on_stuck()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
        await (await _in_thread(loop, self.clear))

    def kill(self) -> int:
        """Kill what is there now; return how many were."""
        living = 0
        if self._group is not None:
            living = sum(not is_zombie(pid) for pid in self._group.pids())
            if living:
                self._group.kill()
        outside = self._outside()
        for pid in outside:
            living += signal_below(pid, descendants(pid), signal.SIGKILL)
        living += signal_below(_NO_PROCESS, outside, signal.SIGKILL, self._is_outside)
        if self._has_reaper():
            return living + ("swept" not in self._read())
        if self._group is None and self._spec:
            pids = marked(self._job_id, self._step_id, self._spec)
            pids += [below for pid in pids for below in descendants(pid) if below not in pids]
            living += signal_below(_NO_PROCESS, pids, signal.SIGKILL, self._belongs)
        return living

    def usage(self) -> list[tuple[int, dict[str, int]]] | None:
        """Return what was used, as of the first task, after the end; None if nobody counts it.

        The supervisor knew it task by task, and took that with it. What the kernel has counted for
        the step's group is all of it. Else there is what the processes had used that were left.
        """
        tasks = self._spec.get("tasks") or [{"task": 0}]
        return [(tasks[0]["task"], self._usage)] if self._spec.get("acct") else None

    def _count(self) -> dict[str, int]:
        user_us, system_us, peak_kib = self._read().get("swept", {}).get("used", (0, 0, 0))
        if self._group is not None:
            group = self._group.usage()
            user_us, system_us = max(user_us, group.user_us), max(system_us, group.system_us)
            peak_kib = max(peak_kib, group.peak_kib)
        return {"user_us": user_us, "system_us": system_us, "cpu_us": user_us + system_us,
                "rss_kib": peak_kib, "virtual_kib": peak_kib}  # fmt: skip

    def _read(self) -> Mapping[str, Any]:
        try:
            return step_record.read(self._path)
        except (OSError, step_record.StepRecordError):
            return {"swept": {}}  # nothing will ever write it

    def _has_reaper(self) -> bool:
        """Return whether the template that forked the supervisor still ends the rest."""
        record = self._records.get("pid") or {}
        start = record.get("reaper_start", 0)
        if not start or record["boot"] != step_record.boot_id():
            return False
        return bool(step_record.start_ticks(record["reaper"]) == start)

    def _outside(self) -> list[int]:
        """Return the processes that an extern step had taken in and that still run."""
        pids = [pid for pid, start in self._known() if step_record.start_ticks(pid) == start]
        return [pid for pid in pids if not is_zombie(pid)]

    def _known(self) -> list[tuple[int, int]]:
        return [(pid, start) for pid, start in self._records.get("outside", {}).get("pids", ())]

    def _is_outside(self, pid: int) -> bool:
        return (pid, step_record.start_ticks(pid)) in self._known()

    def _belongs(self, pid: int) -> bool:
        try:
            return not is_zombie(pid) and os.stat(f"/proc/{pid}").st_uid == self._spec["uid"]
        except OSError:
            return False

    def clear(self) -> None:
        """Remove everything except processes, and take what the step's group had counted."""
        self._usage = self._count()
        if self._group is not None:
            self._group.leave()
        if self._spec.get("script"):
            remove_script(self._spec["spool"])


async def _in_thread(
    loop: asyncio.AbstractEventLoop, work: Callable[[], Any]
) -> asyncio.Future[Any]:
    """Return the result of work in a thread for which slurmd's end does not wait.

    The step that is to be ended may have taken all threads that there can be. A thread is asked for
    until there is one.
    """
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: Exception | None) -> None:
        if not future.done():
            future.set_exception(error) if error is not None else future.set_result(result)

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            failure = error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            return  # the loop has ended

    while True:
        try:
            threading.Thread(target=run, daemon=True, name="orphaned_step").start()
        except RuntimeError:
            await asyncio.sleep(_FIRST_PAUSE_S)
        else:
            return future


def marked(job_id: int, step_id: int, spec: Mapping[str, Any]) -> list[int]:
    """Return processes of a user that by their environment belong to a step here."""
    step = step_variable(step_id).encode()
    variables = {b"SLURM_JOB_ID=%d" % job_id, b"SLURM_STEP_ID=%b" % step}
    # Another cluster on this host, or another node of this one, may have the same job id.
    names = (b"SLURMD_NODENAME=", b"SLURM_CONF=")
    variables |= {entry for entry in spec["env"] if entry.startswith(names)}
    own = os.getpid()
    pids = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == own:
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid != spec["uid"]:
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                if variables <= set(file.read().split(b"\0")):
                    pids.append(int(name))
        except OSError:
            continue
    return pids
