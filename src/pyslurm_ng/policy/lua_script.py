"""A site's Lua script: loaded, called, and loaded again when its file changes.

The script sees what a script sees under Slurm: the table `slurm` and, for each call, tables whose
fields are read from and written to the request. A language of ours under it is Lua 5.4, with the
names of Lua 5.1 that scripts still use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from lupa.lua54 import LuaError, LuaRuntime, lua_type

from pyslurm_ng.base import units
from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.policy import constants
from pyslurm_ng.policy.description import (
    DEBUG,
    DEBUG2,
    DEBUG3,
    DEBUG4,
    ERROR,
    INFO,
    VERBOSE,
    Said,
)
from pyslurm_ng.policy.lua_commands import complete_library

MOST_MEMORY = 256 << 20
"""Bytes that a script's Lua may have: a script that eats memory gets an error from it."""
_MOST_SOURCE = 16 << 20
_LARGEST = 2**63 - 1

# The names that scripts find, and tables that ask Python for each field. `error` with level 2 names
# the script's line, not ours.
_PRELUDE = b"""
local log, tell, minutes = ...
python = nil
slurm = {}
local function text(form, ...)
    local is_right, made = pcall(string.format, form, ...)
    return is_right and made or tostring(form)
end
local function line(level)
    return function(...) log(level, text(...)) end
end
slurm.log_error, slurm.error = line(2), line(2)
slurm.log_info, slurm.log_verbose = line(3), line(4)
slurm.log_debug, slurm.log_debug2 = line(5), line(6)
slurm.log_debug3, slurm.log_debug4 = line(7), line(8)
function slurm.log(level, ...) log(3 + (tonumber(level) or 0), text(...)) end
function slurm.log_user(...) tell(text(...)) end
function slurm.user_msg(text) tell(tostring(text)) end
function slurm.time_str2mins(text) return minutes(tostring(text)) end
function print(...)
    local words = table.pack(...)
    for i = 1, words.n do words[i] = tostring(words[i]) end
    log(3, table.concat(words, "\\t"))
end
unpack, loadstring = table.unpack, load
table.getn = function(t) return #t end
table.maxn = function(t)
    local most = 0
    for key in pairs(t) do if type(key) == "number" and key > most then most = key end end
    return most
end
math.pow = function(x, y) return x ^ y end
math.mod, string.gfind = math.fmod, string.gmatch

local made = {}
function made.load(code, name) return load(code, name, "t") end
function made.fields(get, set)
    local function assign(_, key, value)
        local problem = set(key, value)
        if problem then error(problem, 2) end
    end
    return setmetatable({}, {__index = function(_, key) return get(key) end, __newindex = assign})
end
function made.listing(get, ids)
    local function walk(t)
        local names, i = ids(), 0
        return function()
            i = i + 1
            local name = names[i]
            if name ~= nil then return name, get(name) end
        end, t, nil
    end
    return setmetatable({}, {__index = function(_, key) return get(key) end, __pairs = walk})
end
function made.variables(get, set, all)
    local function assign(_, key, value) set(key, value) end
    return setmetatable({}, {
        __index = function(_, key) return get(key) end, __newindex = assign,
        __pairs = function() return pairs(all()) end,
    })
end
function made.call(name, ...) return _G[name](...) end
function made.has(name) return type(_G[name]) == "function" end
return made
"""


class ScriptError(Exception):
    """A script that cannot be loaded, or that raised an error; the text is for log and user."""


class LuaScript:
    """One script file and the functions it must have.

    Attributes:
        said: where lines of the script go; the caller replaces it before each call.
    """

    def __init__(self, path: str, functions: Sequence[str], most_memory: int = MOST_MEMORY) -> None:
        """Load the script.

        Raises:
            ScriptError: it cannot be read or run, or lacks a function.
        """
        self.path = path
        self.said = Said()
        self._functions = functions
        self._most_memory = most_memory
        self._mark: tuple[int, ...] = ()
        self._lua: Any = None
        self._made: Any = None
        self.problem = ""
        mark = _file_mark(path)
        self._load()
        self._mark = mark

    def refresh(self) -> None:
        """Load the script again if its file has changed; keep the one before if that fails."""
        try:
            mark = _file_mark(self.path)
        except ScriptError as error:
            self.said.log(ERROR, f"{error}, using old script")
            return
        if mark == self._mark:
            return
        self._mark = mark
        before = self._lua, self._made
        try:
            self._load()
            self.said.log(INFO, f"{self.path}: loaded again")
        except ScriptError as error:
            self._lua, self._made = before
            self.said.log(ERROR, f"{error}, using previous script")

    def _load(self) -> None:
        try:
            with open(self.path, "rb") as file:
                code = file.read(_MOST_SOURCE + 1)
        except OSError as error:
            raise ScriptError(f"Unable to read {self.path}: {error.strerror}") from None
        if len(code) > _MOST_SOURCE:
            raise ScriptError(f"{self.path}: larger than {_MOST_SOURCE >> 20} MiB")
        self._lua = LuaRuntime(
            encoding=None,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            max_memory=self._most_memory,
        )
        self._made = self._run(
            self._lua.eval(b"function(code, ...) return load(code, '=slurm', 't')(...) end"),
            _PRELUDE, self._log, self._tell, _minutes,
        )  # fmt: skip
        complete_library(self._lua)
        if code.startswith(b"#"):
            code = b"--" + code
        loaded = self._run(self._made[b"load"], code, b"@" + os.fsencode(self.path))
        function, problem = loaded if isinstance(loaded, tuple) else (loaded, None)
        if function is None:
            raise ScriptError(f"{self.path}: {text_of(problem)}")
        slurm = self._lua.globals()[b"slurm"]
        for name, number in constants.NUMBERS.items():
            slurm[name.encode()] = number if number <= _LARGEST else float(number)
        self.prepare(slurm)
        self._run(function)
        for name in self._functions:
            if not self._made[b"has"](name.encode()):
                raise ScriptError(f"{self.path}: missing required function {name}")

    def prepare(self, slurm: Any) -> None:
        """Add names to the table `slurm`; subclasses do."""

    # Calls ------------------------------------------------------------------------------------

    def call(self, name: str, *arguments: Any) -> Any:
        """Call one of the script's functions.

        Raises:
            ScriptError: it raised an error, or needs more memory than it may have.
        """
        return self._run(self._made[b"call"], name.encode(), *arguments)

    def has(self, name: str) -> bool:
        """Return whether the script defines a function."""
        return bool(self._made[b"has"](name.encode()))

    def _run(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except MemoryError:
            raise ScriptError(f"{self.path}: not enough memory") from None
        except LuaError as error:
            # What follows is the stack, for those who debug; users get one line.
            first = str(error).partition("\nstack traceback:")[0] or "error without a text"
            raise ScriptError(f"{self.path}: {first}") from None

    def fields(self, get: Callable[[str], Any], set_: Callable[[str, Any], str | None]) -> Any:
        """Return a table whose fields are read and set by functions; `set_` returns a problem."""

        def get_raw(key: Any) -> Any:
            return self.to_lua(get(text_of(key)))

        def set_raw(key: Any, value: Any) -> bytes | None:
            problem = set_(text_of(key), self.from_lua(value))
            return None if problem is None else problem.encode()

        return self._made[b"fields"](get_raw, set_raw)

    def listing(self, get: Callable[[str], Any], names: Callable[[], Sequence[str]]) -> Any:
        """Return a table that asks for an entry by name, and for all names when it is walked."""

        def all_names() -> Any:
            return self._lua.table_from([name.encode() for name in names()])

        return self._made[b"listing"](lambda key: self.to_lua(get(text_of(key))), all_names)

    def variables(
        self,
        get: Callable[[str], str | None],
        set_: Callable[[str, str | None], None],
        all_: Callable[[], dict[str, str]],
    ) -> Any:
        """Return a table of texts that can be read, set and walked: the environment."""
        return self._made[b"variables"](
            lambda key: self.to_lua(get(text_of(key))),
            lambda key, value: set_(text_of(key), None if value is None else text_of(value)),
            lambda: self.to_lua(all_()),
        )

    def to_lua(self, value: Any) -> Any:
        """Return a value as Lua has it; lists begin at 0, as Slurm's do."""
        if isinstance(value, str):
            return value.encode("utf-8", "surrogateescape")
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            return value if value <= _LARGEST else float(value)
        if isinstance(value, list):
            return self._lua.table_from({i: self.to_lua(each) for i, each in enumerate(value)})
        if isinstance(value, dict):
            return self._lua.table_from(
                {self.to_lua(key): self.to_lua(each) for key, each in value.items()}
            )
        return value

    def from_lua(self, value: Any) -> Any:
        """Return a value as Python has it; a table or function as it is."""
        return text_of(value) if isinstance(value, bytes) else value

    def _log(self, level: Any, text: bytes) -> None:
        levels = (ERROR, INFO, VERBOSE, DEBUG, DEBUG2, DEBUG3, DEBUG4)
        self.said.log(min(max(int(level), levels[0]), levels[-1]), f"lua: {text_of(text)}")

    def _tell(self, text: bytes) -> None:
        self.said.tell(text_of(text))


def text_of(value: Any) -> str:
    """Return a text that Lua gave, or the text of a number or table."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return "" if value is None else str(value)


def is_function(value: Any) -> bool:
    """Return whether Lua gave a function."""
    return bool(lua_type(value) == "function")


def _minutes(text: Any) -> int:
    """Return the minutes of a time limit, -1 for none, -2 for what is no time limit."""
    try:
        minutes = units.parse_time_limit_min(text_of(text))
    except units.UnitError:
        return -2
    return -1 if minutes == INFINITE else minutes


def _file_mark(path: str) -> tuple[int, ...]:
    try:
        stat = os.stat(path)
    except OSError as error:
        raise ScriptError(f"Unable to stat {path}: {error.strerror}") from None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
