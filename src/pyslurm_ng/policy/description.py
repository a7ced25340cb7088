"""A job as one call of a site's functions sees it: fields, environment, what the functions said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyslurm_ng.policy.job_fields import FIELDS, Field, Request, UnknownField, Value, set_field

ERROR, INFO, VERBOSE, DEBUG, DEBUG2, DEBUG3, DEBUG4 = range(2, 9)
"""Levels of log lines: those of `daemon.log`."""
MOST_LINES = 1000
MOST_CHARACTERS = 4096
_CUT = "..."


class Said:
    """What scripts said in one call: lines for the log, and lines for the user."""

    def __init__(self) -> None:
        self.log_lines: list[tuple[int, str]] = []
        self.user_lines: list[str] = []

    def log(self, level: int, text: str) -> None:
        """Take a line for slurmctld's log; beyond a thousand lines they are left out.

        Further lines of a text are indented: a user's name or comment in it must not look like a
        line of slurmctld's own.
        """
        for line in text.replace("\n", "\n    ").split("\n"):
            if len(self.log_lines) < MOST_LINES:
                self.log_lines.append((level, _cut(line)))

    def tell(self, text: str) -> None:
        """Take a text for the user, line by line."""
        for line in text.split("\n"):
            if len(self.user_lines) < MOST_LINES:
                self.user_lines.append(_cut(line))


def _cut(line: str) -> str:
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - len(_CUT)] + _CUT


class Description:
    """Reads and writes the fields of one request.

    Attributes:
        request: the map of a `JobRequest` without defaults; changed in place.
        is_environment_changed: a plugin has set or removed a variable.
        is_script_changed: a plugin has given the job another batch script.
    """

    def __init__(
        self,
        request: Request,
        said: Said,
        *,
        known: Mapping[str, Any],
        environment: bytes = b"",
        script: bytes = b"",
        fields: Mapping[str, Field] = FIELDS,
    ) -> None:
        """Begin a call.

        Args:
            fields: those of the request; a change has others than a submission.
            known: fields that are not the request's own, which can only be read: `user_id` ...
            environment: `NAME=value` entries, each followed by NUL.
        """
        self.request = request
        self.is_environment_changed = False
        self.is_script_changed = False
        self._said = said
        self._fields = fields
        self._known = known
        self._environment_bytes = environment
        self._environment: dict[str, str] | None = None
        self._script = script

    def get(self, name: str) -> Value:
        """Return the value of a field; None for one that is not given, or does not exist."""
        field = self._fields.get(name)
        if field is not None:
            return field.read(self.request)
        if name == "script":
            return self._script.decode("utf-8", "replace") if self._script else None
        value: Value = self._known.get(name)
        return value

    def set(self, name: str, value: object) -> None:
        """Set a field; an unknown one is named in the log, as Slurm does.

        Raises:
            FieldError: the value is none for this field.
        """
        if name == "script" and self._script and isinstance(value, str):
            self._script = value.encode("utf-8", "surrogateescape")
            self.is_script_changed = True
            return
        try:
            set_field(self.request, self._fields.get(name), name, value)
        except UnknownField:
            self._said.log(ERROR, f"_set_job_field: unrecognized field: {name}")

    @property
    def script(self) -> bytes:
        """The batch script, b"" for a job without one."""
        return self._script

    # The environment ------------------------------------------------------------------------------

    @property
    def environment(self) -> dict[str, str]:
        """The job's variables."""
        if self._environment is None:
            entries = self._environment_bytes.decode("utf-8", "surrogateescape").split("\0")
            self._environment = {
                name: value
                for name, sign, value in (entry.partition("=") for entry in entries)
                if sign
            }
        return self._environment

    def set_variable(self, name: str, value: str | None) -> None:
        """Set a variable of the job's environment, or remove it."""
        if not name or "=" in name or "\0" in name or (value is not None and "\0" in value):
            return
        self.is_environment_changed = True
        if value is None:
            self.environment.pop(name, None)
        else:
            self.environment[name] = value

    def environment_bytes(self) -> bytes:
        """Return the environment as it is after the call."""
        if not self.is_environment_changed:
            return self._environment_bytes
        text = "".join(f"{name}={value}\0" for name, value in self.environment.items())
        return text.encode("utf-8", "surrogateescape")
