"""What a supervisor obeys: slurmd's orders (`d.spool.step_contract`), and signals from srun."""

import os
from _signal import SIGKILL  # type: ignore[import-not-found]

from pyslurm_ng.base.numbers import STEP_EXTERN
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.daemon.process_tree import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.d.spool.step_contract import AdoptOrder, Order, Route, StepSpec
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_notices import StepNotices
    from pyslurm_ng.d.stepd.step_processes import StepProcesses
    from pyslurm_ng.d.stepd.step_readers import StepReaders
    from pyslurm_ng.d.stepd.step_usage import StepUsage
    from pyslurm_ng.d.stepd.task import Tasks


class StepOrders:
    """Carries out orders and signals.

    Args:
        path: the path of the step's file.
        tell: sends an answer to slurmd, a map with the key "did".
    """

    def __init__(
        self,
        spec: "StepSpec",
        tasks: "Tasks",
        processes: "StepProcesses",
        ending: "StepEnding",
        usage: "StepUsage",
        notices: "StepNotices",
        readers: "StepReaders",
        path: str,
        tell: "Callable[[dict[str, Any]], bool]",
    ) -> None:
        self._spec = spec
        self._tasks = tasks
        self._processes = processes
        self._ending = ending
        self._usage = usage
        self._notices = notices
        self._readers = readers
        self._path = path
        self._tell = tell

    def obey(self, order: "Order") -> None:
        """Carry out an order of slurmd."""
        if order["do"] == "signal":
            self.signal(order["number"], order["scope"])
        elif order["do"] == "terminate":
            self._usage.measure_outside()
            self._ending.terminate(order["why"], order["wait_s"])
        elif order["do"] == "suspend":
            self._processes.suspend()
        elif order["do"] == "resume":
            self._processes.resume()
        elif order["do"] == "say":
            self._notices.write(order["text"])
        elif order["do"] == "ping":
            self._tell({"did": "ping", "tag": order["tag"]})
        elif order["do"] == "pids":
            pids = {"tasks": self._tasks.running_pids(), "all": self._processes.living()}
            self._tell({"did": "pids", "tag": order["tag"], **pids})
        elif order["do"] == "adopt":
            self._tell({"did": "adopt", "tag": order["tag"], "problem": self._adopt(order)})
        elif order["do"] == "reader":
            self._tell(self._reader(order["tag"], order["route"]))
        elif order["do"] == "usage":
            self._usage.measure()
            usage = {
                "usage": self._usage.rows(),
                "pids": self._processes.living(),
                "energy_j": self._usage.energy_j(),
                "traffic": self._usage.traffic(),
            }
            self._tell({"did": "usage", "tag": order["tag"], **usage})

    def _adopt(self, order: "AdoptOrder") -> str:
        """Take in a process from outside; return why that is impossible, "" if it is done."""
        if self._ending.is_dying:
            return "the job is ending"
        problem = self._processes.adopt(order["pid"], order["start"])
        if not problem:
            self._usage.begin()
            self._keep_known()
        return problem

    def _keep_known(self) -> None:
        """Let those who end the processes of a lost supervisor know them."""
        outside = self._processes.outside
        record = {"kind": "outside", "pids": outside.known() if outside is not None else []}
        try:
            step_record.append(self._path, record)
        except OSError:
            return  # the spool is full; a control group has them all the same

    def _reader(self, tag: int, route: "Route | None") -> "dict[str, Any]":
        """Connect to a sattach that asks by a route, and say which tasks are here."""
        return {
            "did": "reader",
            "tag": tag,
            "problem": "" if route is None else self._readers.add(route, os.getpid()),
            "node_index": self._spec["node_index"],
            "tasks": [task.task for task in self._tasks.all],
        }

    def signal(self, number: int, scope: str) -> None:
        """Send a signal to all processes, or only to the tasks; SIGKILL for all ends the step.

        An extern step ends with its job only, so it loses its processes.
        """
        if self._spec["step"] == STEP_EXTERN and number == SIGKILL:
            self._processes.kill()
        elif number == SIGKILL and scope == "all":
            self._ending.terminate("" if self._spec["is_batch"] else "DUE to SIGNAL Killed", 0.0)
        elif scope == "script":
            pids = [pid for pid in self._tasks.running_pids().values() if pid]
            launch = self._processes.launch
            if launch is not None and launch.next_task_pid:
                pids.append(launch.next_task_pid)
            self._processes.signal(pids, number)
        else:
            self._processes.signal_all(number)

    def signal_task(self, task_id: int, number: int) -> None:
        """Send a signal to one task and its descendants."""
        pid = self._tasks.running_pids().get(task_id, 0)
        if pid:
            self._processes.signal([pid, *descendants(pid)], number)
