"""JobSubmitPlugins=python: functions of job_submit.py beside slurm.conf, and of entry points."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from importlib import metadata
from types import ModuleType
from typing import Any

from pyslurm_ng.policy.description import ERROR, INFO, Description, Said
from pyslurm_ng.policy.job_lists import Surroundings, visible
from pyslurm_ng.policy.lua_script import ScriptError
from pyslurm_ng.policy.messages import Row
from pyslurm_ng.policy.site import Job, Refused

GROUP = "pyslurm_ng.job_submit"
SUBMIT, MODIFY = "job_submit", "job_modify"
_FAILED = -1


class _Source:
    """One file or installed package that has the functions."""

    def __init__(self, name: str, functions: Any) -> None:
        self.name = name
        self.functions = functions
        if not callable(getattr(functions, SUBMIT, None)):
            raise ScriptError(f"{name}: missing required function {SUBMIT}")

    def function(self, name: str) -> Callable[..., Any] | None:
        return getattr(self.functions, name, None)


class JobSubmitPython:
    """The plugin: the file first, then the entry points by name."""

    def __init__(self, directory: str) -> None:
        """Load what there is.

        Raises:
            ScriptError: something is broken, or there is nothing.
        """
        self._path = f"{directory}/job_submit.py"
        self._mark = _mark_of(self._path)
        self._file = _load_file(self._path) if self._mark else None
        self._installed = [
            _load_entry(entry)
            for entry in sorted(metadata.entry_points(group=GROUP), key=lambda entry: entry.name)
        ]
        if self._file is None and not self._installed:
            raise ScriptError(
                f"Unable to stat {self._path}: No such file or directory, and no entry point of "
                f"{GROUP} is installed"
            )

    def decide(
        self, job: Description, record: Row | None, surroundings: Surroundings, said: Said
    ) -> int:
        """Call each function; return 0 to accept, or the number of the first that refuses."""
        self._refresh(said)
        sources = [self._file] if self._file is not None else []
        for source in [*sources, *self._installed]:
            code = _call(source, job, record, surroundings, said)
            if code:
                return code
        return 0

    def _refresh(self, said: Said) -> None:
        """Load the file again if it has changed; keep the one before if that fails."""
        mark = _mark_of(self._path)
        if mark == self._mark:
            return
        self._mark = mark
        if not mark:
            said.log(ERROR, f"job_submit/python: {self._path} is gone, using previous file")
            return
        try:
            self._file = _load_file(self._path)
            said.log(INFO, f"job_submit/python: {self._path}: loaded again")
        except ScriptError as error:
            said.log(ERROR, f"job_submit/python: {error}, using previous file")


def _call(
    source: _Source, job: Description, record: Row | None, surroundings: Surroundings, said: Said
) -> int:
    function = source.function(SUBMIT if record is None else MODIFY)
    if function is None:
        return 0
    view = Job(job, said)
    parts = visible(surroundings)
    try:
        if record is None:
            returned = function(view, parts, surroundings.uid)
        else:
            returned = function(view, record, parts, surroundings.uid)
    except Refused as refused:
        if refused.text:
            said.tell(refused.text)
        return refused.code or _FAILED
    except BaseException as error:  # noqa: BLE001 - SystemExit, too: nothing ends the process
        text = f"job_submit/python: {source.name}: {_last_line(error, source.name)}"
        said.log(ERROR, text)
        said.tell(text)
        return _FAILED
    return returned if isinstance(returned, int) and not isinstance(returned, bool) else 0


def _load_file(path: str) -> _Source:
    module = ModuleType("job_submit")
    module.__file__ = path
    try:
        with open(path, "rb") as file:
            exec(compile(file.read(), path, "exec"), module.__dict__)
    except BaseException as error:  # noqa: BLE001 - it is the site's, whatever it is
        raise ScriptError(f"{path}: {_last_line(error, path)}") from None
    return _Source(path, module)


def _load_entry(entry: metadata.EntryPoint) -> _Source:
    try:
        functions = entry.load()
    except BaseException as error:  # noqa: BLE001 - it is the site's, whatever it is
        raise ScriptError(f"{entry.name}: {_last_line(error, entry.name)}") from None
    return _Source(entry.name, functions)


def _last_line(error: BaseException, path: str) -> str:
    """Return what went wrong and in which line of the site's file, which may have called ours."""
    frames = traceback.extract_tb(error.__traceback__)
    numbers = [frame.lineno for frame in frames if frame.filename == path]
    if isinstance(error, SyntaxError) and error.filename == path:
        numbers = [error.lineno]
    elif not numbers:
        numbers = [frame.lineno for frame in frames[1:]]
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()
    where = f"line {numbers[-1]}: " if numbers else ""
    return where + (text[-1] if text else type(error).__name__)


def _mark_of(path: str) -> tuple[int, ...]:
    try:
        stat = os.stat(path)
    except OSError:
        return ()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
