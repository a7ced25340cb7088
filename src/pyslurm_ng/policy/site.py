"""What a site's job_submit.py works with: `from pyslurm_ng.policy.site import Job, Refused`.

    def job_submit(job: Job, partitions: Mapping[str, Mapping[str, Any]], submit_uid: int) -> None:
        if job.account is None:
            raise Refused("say --account")
        if job.time_limit is None:
            job.time_limit = 60

A field that was not given is None. Fields have Slurm's names, the numbers Slurm's units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.numbers import NO_VAL, NO_VAL16
from pyslurm_ng.policy.constants import NICE_OFFSET, NO_VAL64
from pyslurm_ng.policy.description import ERROR, INFO, Description, Said
from pyslurm_ng.policy.job_fields import FIELDS, FieldError

__all__ = ["Errno", "FieldError", "Job", "Refused"]

_MARKS = (NO_VAL, NO_VAL16, NO_VAL64)
_OWN = frozenset(("_description", "_said"))


class Refused(Exception):
    """Raised to refuse the request, with a text for its user and one of Slurm's numbers."""

    def __init__(self, text: str = "", code: int = Errno.SLURM_ERROR) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class Job:
    """The request, as one call sees it; setting a field to None takes it back."""

    if TYPE_CHECKING:
        account: str | None
        acctg_freq: str | None
        admin_comment: str | None
        alloc_node: str | None
        argv: list[str]
        array_inx: str | None
        batch_features: str | None
        begin_time: int
        bitflags: int
        burst_buffer: str | None
        comment: str | None
        container: str | None
        contiguous: int
        cpus_per_task: int | None
        cpus_per_tres: str | None
        deadline: int
        default_account: str | None
        default_qos: str | None
        delay_boot: int | None
        dependency: str | None
        exc_nodes: str | None
        extra: str | None
        features: str | None
        gres: str | None
        group_id: int
        licenses: str | None
        mail_type: int
        mail_user: str | None
        max_nodes: int | None
        mem_per_tres: str | None
        min_cpus: int
        min_mem_per_cpu: int | None
        min_mem_per_node: int | None
        min_nodes: int | None
        name: str | None
        network: str | None
        nice: int | None
        ntasks_per_core: int | None
        ntasks_per_gpu: int | None
        ntasks_per_node: int | None
        ntasks_per_socket: int | None
        num_tasks: int | None
        oversubscribe: int | None
        partition: str | None
        pn_min_cpus: int | None
        pn_min_tmp_disk: int | None
        prefer: str | None
        priority: int | None
        qos: str | None
        reboot: int | None
        req_nodes: str | None
        req_switch: int | None
        requeue: int | None
        reservation: str | None
        script: str | None
        shared: int | None
        std_err: str | None
        std_in: str | None
        std_out: str | None
        threads_per_core: int | None
        time_limit: int | None
        time_min: int | None
        tres_per_job: str | None
        tres_per_node: str | None
        tres_per_socket: str | None
        tres_per_task: str | None
        user_id: int
        user_name: str
        wait4switch: int | None
        wckey: str | None
        work_dir: str | None

    def __init__(self, description: Description, said: Said) -> None:
        self._description = description
        self._said = said

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = self._description.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value in _MARKS:
            return None
        if name == "nice" and isinstance(value, int):
            return value - NICE_OFFSET
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            super().__setattr__(name, value)
            return
        field = FIELDS.get(name)
        if field is None or field.write is None:
            raise AttributeError(f"a job has no field {name} that can be set")
        if name == "nice" and isinstance(value, int):
            value += NICE_OFFSET
        self._description.set(name, value)

    @property
    def environment(self) -> MutableMapping[str, str]:
        """The job's variables."""
        return _Variables(self._description)

    def tell(self, text: str) -> None:
        """Show lines to the user, whether the request is accepted or refused."""
        self._said.tell(str(text))

    def log(self, text: str, *, is_error: bool = False) -> None:
        """Write lines into slurmctld's log."""
        self._said.log(ERROR if is_error else INFO, f"job_submit/python: {text}")


class _Variables(MutableMapping[str, str]):
    def __init__(self, description: Description) -> None:
        self._description = description

    def __getitem__(self, name: str) -> str:
        return self._description.environment[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._description.set_variable(name, value)

    def __delitem__(self, name: str) -> None:
        del self._description.environment[name]
        self._description.is_environment_changed = True

    def __iter__(self) -> Iterator[str]:
        return iter(self._description.environment)

    def __len__(self) -> int:
        return len(self._description.environment)


Partitions = Mapping[str, Mapping[str, Any]]
