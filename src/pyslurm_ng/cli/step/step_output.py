"""What a step's user sees: output of the tasks, and srun's lines after it."""

import select

from pyslurm_ng.cli.command import say
from pyslurm_ng.cli.step.streams import HIGH_BYTES, LOW_BYTES
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.cli.step.node_links import NodeLinks
    from pyslurm_ng.cli.step.streams import Sink, StepIo


class StepOutput:
    """The output of one step.

    Args:
        command: which command's lines are printed beside it.

    Attributes:
        is_behind: whether so much is unwritten that nothing more should be read from the nodes.
    """

    def __init__(
        self, loop: "PollLoop", streams: "StepIo", *, quiet: bool, command: str = "srun"
    ) -> None:
        self.is_behind = False
        self._loop = loop
        self._streams = streams
        self._quiet = quiet
        self._command = command
        self._watched: dict[int, Sink] = {}

    def write(self, kind: int, task: int, body: bytes) -> None:
        """Write a task's output to STDOUT or STDERR, unless only another task's is wanted."""
        streams = self._streams
        is_out = kind == step_io.STDOUT
        only = streams.out_task if is_out else streams.err_task
        if only >= 0 and task != only:
            return
        sink = streams.out if is_out else streams.err
        sink.write(streams.labels.put(kind, task, body) if streams.labels is not None else body)

    def log(self, text: str) -> None:
        """Print a line of the command's own, behind the output that came before it."""
        self.plain(f"{self._command}: {text}")

    def info(self, text: str) -> None:
        """Print a line of the command's own unless --quiet."""
        if not self._quiet:
            self.log(text)

    def plain(self, line: str) -> None:
        """Print a line as it is."""
        self._streams.err.advance()
        say(line)

    def turn(self, links: "NodeLinks") -> None:
        """Let the loop turn once; while our reader is slow, less is read from the nodes.

        So the tasks slow down, too.
        """
        was_behind = self.is_behind
        self._watch()
        if self.is_behind != was_behind:
            links.pause(paused=self.is_behind)
        self._loop.turn()

    def _watch(self) -> None:
        """Let the loop write the rest for slow readers, and note how much is left."""
        unwritten = 0
        slow: dict[int, Sink] = {}
        for sink in (self._streams.out, self._streams.err):
            unwritten += sink.unwritten
            if sink.unwritten:
                slow[sink.descriptor] = sink
        for descriptor in self._watched.keys() - slow.keys():
            self._loop.drop(descriptor)
        for descriptor in slow.keys() - self._watched.keys():
            self._loop.watch(descriptor, select.POLLOUT, self._advance)
        self._watched = slow
        self.is_behind = unwritten > (LOW_BYTES if self.is_behind else HIGH_BYTES)

    def _advance(self, events: int) -> None:
        for sink in self._watched.values():
            sink.advance()

    def finish(self) -> None:
        """Write everything, and wait for slow readers."""
        for sink in (self._streams.out, self._streams.err):
            sink.advance(wait=True)
