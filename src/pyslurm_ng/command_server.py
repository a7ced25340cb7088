"""What a command server does in Python: its modules, and a command in its child.

The server is a process of the user in which the interpreter has started already, so that daily
commands need not wait for it. Its loop is in src/launcher/command_server.c, and ADR 0086 says why.
"""

import gc
import os
import posix
import signal
import sys
import time
from io import BufferedWriter, FileIO, TextIOWrapper

from pyslurm_ng import _run
from pyslurm_ng.cli import session_id

_MAGIC = 0x32736370  # PROTOCOL_MAGIC of src/launcher/command_protocol.h
_UNCOLLECTED = ("srun",)
REPEATABLE = frozenset((b"sbatch", b"scancel", b"squeue", b"sinfo", b"sacct", b"scontrol"))
"""Commands that keep nothing in their modules: after one of them, its process may run the next."""
_DOCUMENTS = (b"--js", b"--y")
"""How --json and --yaml begin: whole documents are kept in memory."""
_NOT_SHARED = frozenset(("hashlib", "_hashlib", "ssl", "_ssl", "readline", "locale", "_locale"))
"""Modules that read variables of the environment when they are imported."""

_FILE_TIME_NS = 10_000_000  # file systems give times in steps
_noted: set[str] = set()


def new_sources() -> list[str]:
    """Return the files of our modules that were imported since the last call.

    Called before children are forked, which compare them later.
    """
    gc.disable()
    gc.freeze()
    paths = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name.startswith("pyslurm_ng") and path and path not in _noted:
            _noted.add(path)
            paths.append(path)
    return paths


def bring(names: str) -> bool:
    """Import the modules that a command needed, if each process gets the same of them.

    Returns:
        Whether the modules are those of their files: nobody wrote to a file since we began.
    """
    begun_ns = time.time_ns() - _FILE_TIME_NS
    for name in names.split(" "):
        root = name.partition(".")[0]
        if name in _NOT_SHARED or (root != "pyslurm_ng" and root not in sys.stdlib_module_names):
            continue
        try:
            __import__(name)
        except Exception:  # noqa: BLE001 - the command that needs it says what is wrong
            continue
    files = [getattr(sys.modules.get(name), "__file__", None) for name in names.split(" ")]
    return all(os.stat(path).st_mtime_ns < begun_ns for path in files if path)


def may_repeat(argv: list[bytes]) -> bool:
    """Return whether the process of a command may run another one, if it left nothing."""
    return argv[0] in REPEATABLE and not any(word.startswith(_DOCUMENTS) for word in argv)


def run_command(
    argv: list[bytes],
    variables: list[bytes],
    ignored: int,
    session: int,
    launcher: int,
    tell: int,
    teaches: int,
    repeats: int,
) -> int:
    """Run a command in a child that has taken over everything else.

    Returns:
        The exit code, if the process may run another command. In all other cases it is left here,
        and the launcher is told.

    Args:
        argv: the command's name and arguments.
        variables: NAME=VALUE each.
        ignored: signals to ignore, bit N - 1 for signal N.
        session: the launcher's session.
        launcher: the socket that takes how the command ended.
        tell: where the server learns which modules were needed.
        teaches: whether it learns which memory was written, too.
        repeats: what `may_repeat` said.
    """
    shared = len(sys.modules)
    handlers = _handlers()

    def report_end(is_signal: bool, number: int) -> None:
        try:
            if len(sys.modules) != shared:
                os.write(tell, ("import " + " ".join(list(sys.modules)[shared:])).encode())
            elif teaches:
                os.write(tell, b"written " + _written_memory())
        except OSError:  # the server has ended meanwhile, or hangs: the command's end counts
            pass
        words = (_MAGIC, int(is_signal), number)
        os.write(launcher, b"".join(word.to_bytes(4, sys.byteorder) for word in words))

    _run.report_end = report_end
    session_id.session = session
    sys.argv = [os.fsdecode(text) for text in argv]
    _take_variables(variables)
    for number in range(1, ignored.bit_length() + 1):
        if ignored >> (number - 1) & 1:
            signal.signal(number, signal.SIG_IGN)
    # As the interpreter makes them in its UTF-8 mode.
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = TextIOWrapper(
        BufferedWriter(FileIO(2, "w", closefd=False)),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
    name = sys.argv[0]
    if not repeats:
        if name in _UNCOLLECTED:
            gc.enable()
        _run.run(name)
    status = _run.finish(name)
    plugins = sys.modules.get("pyslurm_ng.cli.submit.plugins")
    has_plugins = plugins is not None and plugins.has_plugins()
    if status or teaches or has_plugins or len(sys.modules) != shared or _handlers() != handlers:
        report_end(False, status)
        os._exit(status)
    return status


def _handlers() -> "list[object]":
    return [signal.getsignal(number) for number in range(1, 32)]


def _written_memory() -> bytes:
    """Return the spans of memory that only this process has: address and bytes, 8 bytes each.

    A page that a child of the server has not written to is still shared with the server.
    """
    page, most = os.sysconf("SC_PAGE_SIZE"), 3000  # what fits a packet
    spans: list[list[int]] = []
    with open("/proc/self/maps", "rb") as maps, open("/proc/self/pagemap", "rb", 0) as pages:
        for line in maps:
            bounds, mode = line.split()[:2]
            if not mode.startswith(b"rw") or b"[stack]" in line:
                continue
            start, end = (int(text, 16) for text in bounds.split(b"-"))
            pages.seek(start // page * 8)
            known = memoryview(pages.read((end - start) // page * 8)).cast("Q")
            for number, entry in enumerate(known):
                if entry >> 63 and entry >> 56 & 1:  # present, and mapped by nobody else
                    address = start + number * page
                    if spans and sum(spans[-1]) == address:
                        spans[-1][1] += page
                    else:
                        spans.append([address, page])
    return b"".join(word.to_bytes(8, sys.byteorder) for span in spans[:most] for word in span)


def _take_variables(texts: list[bytes]) -> None:
    """Show the environment in `os`; of a name that is there twice the first counts, as at a start.

    The process has it already.
    """
    variables: dict[bytes, bytes] = {}
    for text in texts:
        name, equals, value = text.partition(b"=")
        if equals and name:
            variables.setdefault(name, value)
    shown: dict[bytes, bytes] = vars(os.environ)["_data"]
    for kept in (shown, posix.environ):
        kept.clear()
        kept.update(variables)
    time.tzset()
