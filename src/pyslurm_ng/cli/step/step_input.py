"""srun's standard input on its way to the tasks, no faster than the slowest node takes it."""

import os
import select

from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.cli.step.link import Link
    from pyslurm_ng.cli.step.node_links import NodeLinks

_TTY_RETRY_S = 1.0
_EIO = 5


class StepInput:
    """The input of one step, for all of its tasks or for one.

    Args:
        descriptor: the file to read; -1 for none.
        task: the only task that gets it; -1 for all.
        node: where that task runs; -1 if it runs nowhere.
    """

    def __init__(
        self, loop: "PollLoop", links: "NodeLinks", descriptor: int, task: int, node: int
    ) -> None:
        self._loop = loop
        self._links = links
        self._descriptor = descriptor
        self._task = task if task >= 0 else step_io.ALL
        self._nodes = None if task < 0 else [node] if node >= 0 else []
        self._is_over = descriptor < 0
        self._is_reading = False

    def go_on(self) -> None:
        """Read on when every node can take more."""
        if self._is_over or self._is_reading or not self._links.is_complete:
            return
        if all(link.credit > 0 for link in self._readers()):
            self._loop.watch(self._descriptor, select.POLLIN, self._on_ready)
            self._is_reading = True

    def _readers(self) -> "list[Link]":
        """Return the connections that the input goes to."""
        return self._links.open_links(self._nodes)

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.drop(self._descriptor)

    def _on_ready(self, events: int) -> None:
        readers = self._readers()
        room = min((link.credit for link in readers), default=step_io.CHUNK_BYTES)
        if room <= 0:
            self._pause()
            return
        try:
            data = os.read(self._descriptor, min(room, step_io.CHUNK_BYTES))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:
            if problem.errno == _EIO:
                # We run in the background of a terminal and may not read from it now.
                self._pause()
                self._loop.later(_TTY_RETRY_S, self.go_on, "stdin")
                return
            data = b""
        if not data:
            self._end()
            return
        frame = step_io.pack(step_io.STDIN, self._task, data)
        for link in readers:
            link.credit -= len(data)
            self._links.send(link, frame)
        if any(link.credit <= 0 for link in readers):
            self._pause()

    def _end(self) -> None:
        self._pause()
        self._is_over = True
        for link in self._readers():
            self._links.send(link, step_io.pack(step_io.STDIN, self._task))
