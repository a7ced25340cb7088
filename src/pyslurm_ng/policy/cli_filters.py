"""Filters of the commands in Lua and Python: cli_filter.lua and cli_filter.py beside slurm.conf.

They run in the command of a user, with the rights of that user.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

from pyslurm_ng.policy.description import ERROR, Said
from pyslurm_ng.policy.lua_script import LuaScript, ScriptError

__all__ = ["LuaFilter", "PythonFilter", "ScriptError"]

_SETUP, _PRE, _POST = "slurm_cli_setup_defaults", "slurm_cli_pre_submit", "slurm_cli_post_submit"
Tell = Callable[[int, str], None]


def _json(values: dict[str, Any]) -> bytes:
    """Return JSON as Slurm writes it, on one line."""
    return json.dumps(values, separators=(",", ":")).replace("/", "\\/").encode()


class Options(Protocol):
    """The options of one component."""

    def get(self, name: str, /) -> Any:
        """Return an option's text, None without one."""

    def set(self, name: str, value: Any, /) -> None:
        """Set an option."""

    def given(self) -> dict[str, Any]:
        """Return the options that were given."""


class _Spoken(Said):
    """Lines of a script are shown at once."""

    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell_user = tell

    def log(self, level: int, text: str) -> None:
        """Show a line."""
        self._tell_user(level, text)

    def tell(self, text: str) -> None:
        """Show a line."""
        self._tell_user(3, text)


class _Script(LuaScript):
    """cli_filter.lua; `slurm` has what only filters have."""

    def __init__(self, path: str, cluster_name: str) -> None:
        self._cluster_name = cluster_name
        self._stored: dict[Any, Any] = {}
        self.options: Options | None = None
        super().__init__(path, (_SETUP, _PRE, _POST))

    def prepare(self, slurm: Any) -> None:
        """Add what filters see."""
        slurm[b"CLUSTER_NAME"] = self._cluster_name.encode()
        slurm[b"json_cli_options"] = lambda *_: self._json_options()
        slurm[b"json_env"] = lambda *_: _json({**os.environ})
        slurm[b"cli_store"] = self._store
        slurm[b"cli_retrieve"] = lambda key: self._stored.get(key)

    def _store(self, key: Any, value: Any) -> None:
        self._stored[key] = value

    def _json_options(self) -> bytes:
        options = self.options
        if options is None:
            return b"{}"
        words = options.get("argv")
        return _json({**dict(sorted(options.given().items())), "argv": [*words.values()]})


class LuaFilter:
    """CliFilterPlugins=lua."""

    def __init__(self, path: str, cluster_name: str, tell: Tell) -> None:
        """Load the script.

        Raises:
            ScriptError: it is missing or broken.
        """
        self._tell = tell
        self._script = _Script(path, cluster_name)
        self._script.said = _Spoken(tell)

    def setup(self, options: Options) -> int:
        """Call slurm_cli_setup_defaults."""
        return self._call(_SETUP, options)

    def pre_submit(self, options: Options, offset: int) -> int:
        """Call slurm_cli_pre_submit."""
        return self._call(_PRE, options, offset)

    def post_submit(self, offset: int, job_id: int, step_id: int) -> None:
        """Call slurm_cli_post_submit."""
        self._call(_POST, None, offset, job_id, step_id)

    def _call(self, name: str, options: Options | None, *numbers: int) -> int:
        script = self._script
        script.options = options
        arguments: list[Any] = [*numbers]
        if options is not None:

            def set_(name: str, value: Any) -> None:
                options.set(name, value)

            arguments.insert(0, script.fields(options.get, set_))
        try:
            returned = script.call(name, *arguments)
        except ScriptError as error:
            self._tell(ERROR, f"cli_filter/lua: {error}")
            return -1
        return int(returned) if isinstance(returned, int | float) else 0


class PythonFilter:
    """CliFilterPlugins=python: setup_defaults, pre_submit and post_submit of cli_filter.py."""

    def __init__(self, path: str, tell: Tell) -> None:
        """Load the file.

        Raises:
            ScriptError: it is missing or broken.
        """
        self._tell = tell
        self._path = path
        self._module = ModuleType("cli_filter")
        self._module.__file__ = path
        try:
            with open(path, "rb") as file:
                exec(compile(file.read(), path, "exec"), self._module.__dict__)
        except OSError as error:
            raise ScriptError(f"Unable to read {path}: {error.strerror}") from None
        except Exception as error:  # noqa: BLE001 - it is the site's, whatever it is
            raise ScriptError(f"{path}: {error}") from None

    def setup(self, options: Options) -> int:
        """Call setup_defaults."""
        return self._call("setup_defaults", options)

    def pre_submit(self, options: Options, offset: int) -> int:
        """Call pre_submit."""
        return self._call("pre_submit", options, offset)

    def post_submit(self, offset: int, job_id: int, step_id: int) -> None:
        """Call post_submit."""
        self._call("post_submit", offset, job_id, step_id)

    def _call(self, name: str, *arguments: Any) -> int:
        function = getattr(self._module, name, None)
        if function is None:
            return 0
        try:
            returned = function(*arguments)
        except Exception as error:  # noqa: BLE001 - one line for the user
            line = traceback.extract_tb(error.__traceback__)[-1].lineno
            self._tell(ERROR, f"cli_filter/python: {self._path}:{line}: {error}")
            return -1
        return returned if isinstance(returned, int) else 0
