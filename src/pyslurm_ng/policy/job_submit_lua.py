"""JobSubmitPlugins=lua: the functions of job_submit.lua, called as Slurm calls them."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.policy.description import ERROR, INFO, Description, Said
from pyslurm_ng.policy.job_fields import FieldError, kind_of
from pyslurm_ng.policy.job_lists import Surroundings, visible
from pyslurm_ng.policy.lua_script import LuaScript, ScriptError, text_of
from pyslurm_ng.policy.messages import Row

SUBMIT, MODIFY = "slurm_job_submit", "slurm_job_modify"
_FAILED = -1


class _Script(LuaScript):
    """job_submit.lua; `slurm` has the cluster's name, its jobs and its reservations, too."""

    def __init__(self, path: str, cluster_name: str) -> None:
        self._cluster_name = cluster_name
        self.surroundings: Surroundings | None = None
        super().__init__(path, (SUBMIT, MODIFY))

    def prepare(self, slurm: Any) -> None:
        """Add what only slurmctld's scripts see."""
        slurm[b"CLUSTER_NAME"] = self._cluster_name.encode()
        slurm[b"jobs"] = self.listing(self._job, self._job_names)
        slurm[b"get_qos_priority"] = self._qos_priority
        slurm[b"reservations"] = self.listing(self._reservation, self._reservation_names)

    def _qos_priority(self, name: Any = None) -> int | None:
        """Return the priority of a QOS, nil for a name that none has."""
        row = None if self.surroundings is None else self.surroundings.qos.get(text_of(name))
        return None if row is None else int(row["priority"])

    def _job(self, name: str) -> Row | None:
        return None if self.surroundings is None else self.surroundings.jobs.get(name)

    def _job_names(self) -> list[str]:
        return [] if self.surroundings is None else [*self.surroundings.jobs.names()]

    def _reservation(self, name: str) -> Row | None:
        return None if self.surroundings is None else self.surroundings.reservations.get(name)

    def _reservation_names(self) -> list[str]:
        return [] if self.surroundings is None else [*self.surroundings.reservations.names()]


class JobSubmitLua:
    """The plugin: one script beside slurm.conf."""

    def __init__(self, directory: str, cluster_name: str) -> None:
        """Load the script.

        Raises:
            ScriptError: it is missing or broken.
        """
        self._path = f"{directory}/job_submit.lua"
        self._script = _Script(self._path, cluster_name)

    def decide(
        self, job: Description, record: Row | None, surroundings: Surroundings, said: Said
    ) -> int:
        """Call the function for a submission or a change; return its number, 0 to accept.

        An error in the script refuses the request: see ADR 0081.
        """
        script = self._script
        script.said, script.surroundings = said, surroundings
        script.refresh()
        try:
            parts = script.to_lua({})
            for name, row in visible(surroundings).items():
                parts[script.to_lua(name)] = script.to_lua(row)
            if record is None:
                returned = script.call(SUBMIT, self._fields(job), parts, surroundings.uid)
            else:
                returned = script.call(
                    MODIFY, self._fields(job), script.to_lua(record), parts, surroundings.uid
                )
        except ScriptError as error:
            said.log(ERROR, f"job_submit/lua: {error}")
            said.tell(f"job_submit/lua: {error}")
            return _FAILED
        finally:
            script.surroundings = None
        return self._code(returned, said)

    def _fields(self, job: Description) -> Any:
        script = self._script
        variables = script.variables(
            lambda name: job.environment.get(name), job.set_variable, lambda: job.environment
        )

        def get(name: str) -> Any:
            return variables if name == "environment" else job.get(name)

        def set_(name: str, value: Any) -> str | None:
            try:
                job.set(name, value)
            except FieldError as error:
                return str(error)
            return None

        return script.fields(get, set_)

    def _code(self, returned: Any, said: Said) -> int:
        """Return the number that a function returned; without one Slurm accepts, and says so."""
        if isinstance(returned, tuple):
            returned = returned[0] if returned else None
        if isinstance(returned, bytes):
            returned = self._script.from_lua(returned)
        try:
            if kind_of(returned) not in ("number", "string"):
                raise ValueError
            return int(float(returned))
        except (ValueError, OverflowError):
            said.log(INFO, f"job_submit/lua: {self._path}: non-numeric return code")
            return 0
