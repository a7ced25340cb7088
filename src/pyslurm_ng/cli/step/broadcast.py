"""Sending a file to the nodes of a job: what sbcast and srun --bcast have in common."""

import os
import stat

from pyslurm_ng.cli.command import say
from pyslurm_ng.wire.client import Client, SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LARGEST_BLOCK = 8 << 20
_FAILED = 1


class BroadcastError(Exception):
    """The file cannot be sent at all; one line, without the command's name."""


class Broadcast:
    """Sends files from here to nodes, all at once, block by block.

    Args:
        command: the command's name for error lines.
        granted: `nodes`, `addresses` and `credential` of a job or step.
        block_bytes: size of a block of the file; at most LARGEST_BLOCK.
        limit_s: how long a node may take to answer for a block.
    """

    def __init__(
        self,
        command: str,
        conf: "dict[str, str]",
        granted: "dict[str, Any]",
        *,
        force: bool = False,
        preserve: bool = False,
        compress: bool = False,
        block_bytes: int = LARGEST_BLOCK,
        limit_s: float = 60.0,
    ) -> None:
        self._command = command
        self._conf = conf
        self._nodes: list[str] = granted["nodes"]
        self._addresses: list[Any] = granted["addresses"]
        self._credential: bytes = granted["credential"]
        self._force = force
        self._preserve = preserve
        self._compress = compress
        self._block_bytes = max(1, min(block_bytes, LARGEST_BLOCK))
        self._limit_s = limit_s

    def send(self, source: str, path: str, *, make_directory: bool = False) -> int:
        """Send one file; return 0 or the error number of the last node that failed.

        `%N` in the path means the node's name. Refusals of nodes are printed.

        Raises:
            BroadcastError: the file cannot be read here.
        """
        try:
            # Not to wait for the writer of a FIFO, which is refused below.
            file = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise BroadcastError(f"Can't open `{source}`: {error.strerror}") from None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise BroadcastError(f"Can't send `{source}`: not a regular file")
            if not status.st_size:
                say(f"{self._command}: error: Warning: file `{source}` is empty.")
            return self._send(file, status, path, make_directory)
        finally:
            os.close(file)

    def _send(self, file: int, status: os.stat_result, path: str, make_directory: bool) -> int:
        first: dict[str, Any] = {
            "credential": self._credential,
            "mode": stat.S_IMODE(status.st_mode),
            "force": self._force,
            "make_directory": make_directory,
            "is_packed": self._compress,
        }
        if self._preserve:
            first["times_us"] = [status.st_atime_ns // 1000, status.st_mtime_ns // 1000]
        key = os.urandom(16)
        clients = {
            node: Client(self._conf, f"slurmd:{node}", (str(at[0]), int(at[1])), wait_s=2.0)
            for node, at in zip(self._nodes, self._addresses, strict=True)
        }
        worst = 0
        for data, is_last in self._blocks(file):
            fields = {"key": key, "data": data, "is_last": is_last}
            worst = self._block(clients, fields | first, path) or worst
            first = {}
            if not clients:
                break
        for client in clients.values():
            client.close()
        return worst

    def _blocks(self, file: int) -> "Iterator[tuple[bytes, bool]]":
        """Yield the blocks of a file: (data, whether it is the last)."""
        packer = None
        if self._compress:
            import zlib

            packer = zlib.compressobj(1)
        block = os.read(file, self._block_bytes)
        while True:
            following = os.read(file, self._block_bytes) if block else b""
            if packer is not None:
                block = packer.compress(block) + (b"" if following else packer.flush())
            yield block, not following
            if not following:
                return
            block = following

    def _block(self, clients: "dict[str, Client]", fields: "dict[str, Any]", path: str) -> int:
        """Send a block to all; those that fail are left out from then on."""
        failed: dict[str, SlurmError] = {}
        for node, client in clients.items():
            where = {"path": path.replace("%N", node)} if "credential" in fields else {}
            try:
                client.begin("SendFile", fields | where)
            except SlurmError as problem:
                failed[node] = problem
        for node, client in clients.items():
            if node in failed:
                continue
            try:
                client.receive(self._limit_s)
            except SlurmError as problem:
                failed[node] = problem
        for node, error in failed.items():
            say(f"{self._command}: error: REQUEST_FILE_BCAST({node}): {error.text}")
            clients.pop(node).close()
        codes = [error.code for error in failed.values()]
        return (codes[-1] if 0 < codes[-1] < 256 else _FAILED) if codes else 0


def libraries_of(command: str, program: str, excluded: "list[str]") -> "list[str]":
    """Return the shared libraries that a program needs, but for those below excluded directories.

    They are those that the system's loader would use here; a file that is no program has none.
    """
    import subprocess

    try:
        ran = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    except OSError as error:
        raise BroadcastError(f"ldd: {error.strerror}") from None
    if ran.returncode:
        say(f"{command}: error: Cannot autodetect libraries for '{program}' with ldd command; "
            "still sending the file but ignoring send_libs")  # fmt: skip
        return []
    libraries = []
    for line in ran.stdout.splitlines():
        path = line.partition("=>")[2].strip().partition(" (")[0]
        is_excluded = any(path == prefix or path.startswith(f"{prefix}/") for prefix in excluded)
        if path.startswith("/") and not is_excluded:
            libraries.append(path)
    return libraries


def excluded_directories(text: str) -> "list[str]":
    """Return the directories of --exclude or BcastExclude; `none` for none.

    Raises:
        BroadcastError: one that is not absolute.
    """
    if text.lower() in ("", "none"):
        return []
    words = [word.rstrip("/") for word in text.split(",") if word]
    wrong = [word for word in words if not word.startswith("/")]
    if wrong:
        raise BroadcastError(f"exclude list: {wrong[0]}: the path must be absolute")
    return words


def parameter(conf: "dict[str, str]", name: str) -> "str | None":
    """Return the value of a word of BcastParameters: "" if it has none, None without the word."""
    for word in conf.get("BcastParameters", "").split(","):
        head, _, value = word.partition("=")
        if head.lower() == name.lower():
            return value
    return None


EXCLUDED = "/lib,/usr/lib,/lib64,/usr/lib64"
"""BcastExclude unless it is set."""
