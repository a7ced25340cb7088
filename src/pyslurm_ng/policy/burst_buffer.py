"""One call of a function of burst_buffer.lua, in a process that does nothing else.

slurmctld starts it as SlurmUser, writes a `BufferCall` to its standard input and reads a
`BufferAnswer` from its standard output. A function that takes too long is ended with its process,
and costs the job that it was called for only. It ends by itself when slurmctld does.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from typing import Any

import msgspec
from msgspec import Struct

from pyslurm_ng.policy.description import ERROR, Said
from pyslurm_ng.policy.job_fields import kind_of
from pyslurm_ng.policy.lua_script import LuaScript, ScriptError, text_of

REQUIRED = tuple(
    f"slurm_bb_{name}"
    for name in (
        "job_process pools job_teardown setup data_in real_size paths pre_run post_run data_out "
        "get_status"
    ).split()
)
"""Functions that a script must have; `slurm_bb_test_data_in` and `_out` may be there, too."""
MOST_TEXT = 1 << 20
"""Characters of what a function returns beside its number."""
_PR_SET_PDEATHSIG = 1
_MEMORY_BYTES = 1 << 30
_MOST_FILES = 256
_FAILED = -1


class BufferCall(Struct, frozen=True):
    """Which function of which file to call; all arguments are texts, as in Slurm.

    With `is_optional` the file may lack the function.
    """

    path: str
    function: str
    arguments: tuple[str, ...] = ()
    is_optional: bool = False


class BufferAnswer(Struct, frozen=True):
    """What a function returned: its number (0 for success) and text, and its lines for the log."""

    code: int = 0
    text: str = ""
    log_lines: tuple[tuple[int, str], ...] = ()
    is_missing: bool = False


def answer(call: BufferCall) -> BufferAnswer:
    """Load the script and call the function."""
    said = Said()
    try:
        script = LuaScript(call.path, REQUIRED)
        script.said = said
        if call.is_optional and not script.has(call.function):
            return BufferAnswer(is_missing=True)
        returned = script.call(call.function, *map(script.to_lua, call.arguments))
    except ScriptError as error:
        said.log(ERROR, str(error))
        return BufferAnswer(_FAILED, str(error)[:MOST_TEXT], tuple(said.log_lines))
    values = returned if isinstance(returned, tuple) else (returned,)
    text = text_of(script.from_lua(values[1]))[:MOST_TEXT] if len(values) > 1 else ""
    code = _code(script.from_lua(values[0]) if values else None)
    if code is None:
        said.log(ERROR, f"{call.path}: {call.function}: non-numeric return code")
    return BufferAnswer(_FAILED if code is None else code, text, tuple(said.log_lines))


def _code(value: Any) -> int | None:
    try:
        number = int(float(value)) if kind_of(value) in ("number", "string") else None
    except (ValueError, OverflowError):
        return None
    return number if number is None or -(2**31) <= number < 2**32 else None


def main() -> None:
    """Read the call, and write the answer where no child of the script can reach."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    call = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=BufferCall)
    out = os.dup(1)
    os.set_inheritable(out, False)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_FILES, _MOST_FILES))
    reply = msgspec.msgpack.encode(answer(call))
    with open(out, "wb") as stream:
        stream.write(reply)
    os._exit(0)


if __name__ == "__main__":
    main()
