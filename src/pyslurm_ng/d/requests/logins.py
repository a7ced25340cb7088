"""Logins of this host: `pam_pyslurm_adopt` puts each into a job of its user, or hears of none."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyslurm_ng.base.error_texts import error_text
from pyslurm_ng.base.errors import Errno
from pyslurm_ng.d.core.node_core import JobHere
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.steps.step_runner import StepRunner
from pyslurm_ng.daemon.process_tree import is_below
from pyslurm_ng.model.ids import STEP_EXTERN
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.stream import Call

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import AdoptOrder


class Logins:
    """Answers about logins; root of this host alone asks.

    Args:
        pin_of: the file that keeps a job's namespace; "" where it has none.
    """

    def __init__(
        self,
        node: LocalNode,
        runner: StepRunner,
        pin_of: Callable[[nm.JobCredential], str] = lambda credential: "",
    ) -> None:
        self._node = node
        self._runner = runner
        self._pin_of = pin_of

    async def adopt(self, call: Call, request: nm.AdoptLogin) -> None:
        """Put a process into the extern step of its user's newest job."""
        if call.peer.uid != 0 or call.address:
            denied = Errno.ESLURM_ACCESS_DENIED
            call.error(denied, error_text(denied))
            return
        name = self._node.name
        if request.node not in ("", name):
            call.reply(nm.LoginAdopted(name, 0))
            return
        jobs = self._jobs_of(request.uid)
        if not jobs or (len(jobs) > 1 and not request.picks_newest):
            call.reply(nm.LoginAdopted(name, len(jobs)))
            return
        newest = max(jobs, key=_age)
        problem = await self._take_in(newest, request)
        if problem:
            self._node.log.error(f"login of UID {request.uid}, process {request.pid}: {problem}")
            call.reply(nm.LoginAdopted(name, len(jobs), problem=problem))
            return
        text = f"login of UID {request.uid}, process {request.pid}, is in job {newest.job_id}"
        self._node.log.info(text)
        assert newest.credential is not None
        pin = self._pin_of(newest.credential)
        call.reply(nm.LoginAdopted(name, len(jobs), newest.job_id, namespace=pin))

    def _jobs_of(self, uid: int) -> list[JobHere]:
        return [
            job
            for job in self._node.core.jobs.values()
            if job.credential is not None and job.credential.uid == uid and not job.is_ending
        ]

    async def _take_in(self, job: JobHere, request: nm.AdoptLogin) -> str:
        """Return why a job has not got a process, "" if it has."""
        if STEP_EXTERN not in job.steps:
            return f"job {job.job_id} has no extern step here (PrologFlags=Contain)"
        own = os.getpid()
        if request.pid in (0, 1, own) or is_below(own, request.pid):
            return "the node's own processes are in no job"  # the job's end would end the node
        key = (job.job_id, STEP_EXTERN, job.attempt)
        order: AdoptOrder = {
            "do": "adopt", "tag": 0, "pid": request.pid, "start": request.start_ticks
        }  # fmt: skip
        answer = await self._runner.ask(key, order)
        return str(answer["problem"]) if answer else "its extern step does not answer"


def _age(job: JobHere) -> tuple[int, int]:
    assert job.credential is not None
    return job.credential.start_us, job.job_id
