"""The supervisor's channel to slurmd: commands, answers, and a socket for the next slurmd."""

import os
import select
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_SEQPACKET, socket

from pyslurm_ng.kernels.records import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import Order

_COMMAND_BYTES = 65536
_LISTEN_PAUSE_S = 2.0


class SlurmdChannel:
    """Commands of slurmd. While no slurmd is there, a socket beside the step's file waits for one.

    Args:
        path: the path of the step's file.
        obey: called with each command.
        greeting: returns the first messages for a slurmd that connects to the socket.

    Attributes:
        was_left: whether a slurmd has ended before the step.
    """

    def __init__(
        self,
        loop: "PollLoop",
        path: str,
        obey: "Callable[[Order], None]",
        greeting: "Callable[[], list[dict[str, Any]]]",
    ) -> None:
        self._loop = loop
        self._path = path + ".sock"
        self._obey = obey
        self._greeting = greeting
        self._channel: socket | None = None
        self._listener: socket | None = None
        self.was_left = False

    def attach(self, channel: socket) -> None:
        """Serve a slurmd over a channel."""
        channel.setblocking(False)
        self._channel = channel
        self._loop.watch(channel.fileno(), select.POLLIN, self._on_command)

    def tell(self, fields: "dict[str, Any]") -> bool:
        """Send a map; return whether it could be sent."""
        if self._channel is None:
            return False
        try:
            self._channel.send(pack(fields))
        except OSError:
            return False  # slurmd has ended or reads too slowly; the step's file has the rest
        return True

    def _on_command(self, events: int) -> None:
        if self._channel is None:
            return
        try:
            body = self._channel.recv(_COMMAND_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            body = b""
        if not body:
            self._detach()
            return
        try:
            self._obey(unpack(body))
        except (ValueError, KeyError, TypeError, OverflowError, OSError) as error:
            self.tell({"did": "nothing", "error": f"{type(error).__name__}: {error}"})

    def _detach(self) -> None:
        """Close the channel after slurmd has ended, and wait for the next slurmd."""
        self.was_left = True
        if self._channel is not None:
            self._loop.drop(self._channel.fileno())
            self._channel.close()
            self._channel = None
        if self._listener is None:
            self._listen()

    def _listen(self) -> None:
        """Make the socket; where that fails, as in a full spool, try again until it does not."""
        listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
        try:
            self._bind(listener)
            listener.listen(4)
        except OSError:
            listener.close()
            self._loop.later(_LISTEN_PAUSE_S, self._listen, "listen")
            return
        listener.setblocking(False)
        self._listener = listener
        self._loop.watch(listener.fileno(), select.POLLIN, self._accept)

    def _bind(self, listener: socket) -> None:
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        folder = os.open(os.path.dirname(self._path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        # A socket's address may have 107 bytes; with the directory's number only the name counts.
        try:
            listener.bind(f"/proc/self/fd/{folder}/{os.path.basename(self._path)}")
            os.chmod(self._path, 0o600)
        finally:
            os.close(folder)

    def _accept(self, events: int) -> None:
        assert self._listener is not None
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        channel = socket(AF_UNIX, SOCK_SEQPACKET, 0, descriptor)
        if self._channel is not None:
            channel.close()
            return
        self.attach(channel)
        for fields in self._greeting():
            self.tell(fields)

    def close(self) -> None:
        """Remove the socket and close the channel.

        The end of the process does this too late: it may have to close a user's file, and that may
        take for ever.
        """
        if self._listener is not None:
            os.unlink(self._path)
        if self._channel is not None:
            self._loop.drop(self._channel.fileno())
            self._channel.close()
            self._channel = None
