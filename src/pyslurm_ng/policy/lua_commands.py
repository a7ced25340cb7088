"""What scripts of sites expect of Lua, and the Lua of lupa lacks: `io.popen`, installed modules."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import Any

_LIBRARY = b"""
local start = ...
package.path = package.path .. ";/usr/share/lua/5.4/?.lua;/usr/share/lua/5.4/?/init.lua"
local Pipe = {__name = "FILE*"}
Pipe.__index = Pipe
function Pipe:read(...) return self.file:read(...) end
function Pipe:lines(...) return self.file:lines(...) end
function Pipe:flush() self.file:flush() return self end
function Pipe:setvbuf(...) return self.file:setvbuf(...) end
function Pipe:seek() return nil, "Illegal seek", 29 end
function Pipe:write(...)
    local is_written, problem, number = self.file:write(...)
    if not is_written then return nil, problem, number end
    return self
end
function Pipe:close()
    self.file:close()
    local code = self.wait()
    if code == 0 then return true, "exit", 0 end
    return nil, code > 0 and "exit" or "signal", math.abs(code)
end
Pipe.__close = Pipe.close
function io.popen(command, mode)
    mode = mode or "r"
    if mode ~= "r" and mode ~= "w" then
        error("bad argument #2 to 'popen' (invalid mode)", 2)
    end
    local path, opened, wait = start(tostring(command), mode)
    if not path then return nil, opened end
    local file, problem = io.open(path, mode)
    opened()
    if not file then return nil, problem end
    return setmetatable({file = file, wait = wait}, Pipe)
end
local close, kind = io.close, io.type
function io.close(file)
    if getmetatable(file) == Pipe then return file:close() end
    if file == nil then return close() end
    return close(file)
end
function io.type(value)
    if getmetatable(value) == Pipe then return kind(value.file) end
    return kind(value)
end
"""

_Started = tuple[bytes, Callable[[], None], Callable[[], int]]
_going: list[subprocess.Popen[bytes]] = []  # scripts do not always close a pipe


def complete_library(lua: Any) -> None:
    """Add `io.popen`, and where distributions keep modules, to a runtime whose texts are bytes."""
    run = lua.eval(b"function(code, ...) return load(code, '=library', 't')(...) end")
    run(_LIBRARY, _start)


def _start(command: bytes, mode: bytes) -> _Started | tuple[None, bytes]:
    """Start a command; return where Lua opens its end of the pipe, and two functions.

    The first is called once Lua has opened its end: before, an end of ours keeps that from
    waiting for a command that has ended already. The second waits, and returns the exit code, or
    a signal's number below zero.
    """
    _going[:] = [each for each in _going if each.poll() is None]
    ends = os.pipe()
    ours, theirs = ends if mode == b"r" else ends[::-1]
    try:
        started = subprocess.Popen(
            command,
            shell=True,
            stdin=None if mode == b"r" else theirs,
            stdout=theirs if mode == b"r" else None,
        )
    except (OSError, ValueError) as error:
        for end in ends:
            os.close(end)
        return None, str(error).encode()
    _going.append(started)

    def opened() -> None:
        for end in ends:
            os.close(end)

    return b"/proc/self/fd/%d" % ours, opened, started.wait
