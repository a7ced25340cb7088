"""One task's connection to its supervisor, over which its MPI library asks for PMI."""

import os
import select

from pyslurm_ng.base.poll_loop import read_some, write_some
from pyslurm_ng.d.stepd import pmi_messages
from pyslurm_ng.d.stepd.pmi_messages import BadPmiMessage, PmiInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.base.poll_loop import PollLoop

_MOST_UNSENT = 1 << 20


class PmiClient:
    """One task, as PMI sees it.

    Args:
        descriptor: our end of its socket, which is closed here.
        rank: in the whole step.
        on_command: called with this client and each command; may raise BadPmiMessage.
        on_bad: called once with this client and what is wrong with its messages.

    Attributes:
        has_begun: whether it has said that it takes part.
        is_finished: whether it has said that it is done.
        is_waiting: whether it waits in a fence.
        fence_thread: the name of its thread that does.
    """

    def __init__(
        self,
        loop: "PollLoop",
        descriptor: int,
        rank: int,
        on_command: "Callable[[PmiClient, str, dict[str, str]], None]",
        on_bad: "Callable[[PmiClient, str], None]",
    ) -> None:
        os.set_blocking(descriptor, False)
        self.rank = rank
        self.has_begun = self.is_finished = self.is_waiting = False
        self.fence_thread = ""
        self._loop = loop
        self._descriptor = descriptor
        self._on_command = on_command
        self._on_bad = on_bad
        self._input = PmiInput()
        self._unsent = bytearray()
        loop.watch(descriptor, select.POLLIN, self._on_ready)

    @property
    def is_v2(self) -> bool:
        """Whether it speaks PMI-2."""
        return self._input.is_v2

    def send(self, name: str, fields: "dict[str, str]", thread: str = "") -> None:
        """Answer; the answer to `init` is a line in either version."""
        is_v2 = self.is_v2 and name != "response_to_init"
        if thread and is_v2:
            fields = {"thrid": thread, **fields}
        self._unsent += pmi_messages.reply(name, fields, is_v2=is_v2)
        self._write()

    def answer(self, name: str, fields: "dict[str, str]", **answer: str) -> None:
        """Answer a command with these fields: rc is 0 unless `answer` says otherwise."""
        name = f"{name}-response" if self.is_v2 else name
        self.send(name, {"rc": "0", **answer}, fields.get("thrid", ""))

    def _on_ready(self, events: int) -> None:
        if events & select.POLLOUT:
            self._write()
        if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self.read()

    def read(self) -> None:
        """Carry out what it has sent."""
        if self._descriptor < 0:
            return
        data = read_some(self._descriptor)
        if data is None:
            return
        if not data:
            self.close()
            return
        self._input.feed(data)
        try:
            while (command := self._input.take()) is not None:
                self._on_command(self, *command)
            if len(self._unsent) > _MOST_UNSENT:
                raise BadPmiMessage("it sends requests and reads no answers")
        except BadPmiMessage as problem:
            self.close()
            self._on_bad(self, str(problem))

    def _write(self) -> None:
        if self._descriptor < 0:
            return
        if not write_some(self._descriptor, self._unsent):
            self.close()
            return
        events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        self._loop.watch(self._descriptor, events, self._on_ready)

    def close(self) -> None:
        """End the connection."""
        if self._descriptor >= 0:
            self._loop.drop(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
