"""Lines that the supervisor itself writes: to srun and sattach, or into the step's stderr."""

from pyslurm_ng.d.stepd.step_tasks import notice
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyslurm_ng.d.stepd.step_readers import StepReaders
    from pyslurm_ng.d.stepd.step_streams import SrunLink
    from pyslurm_ng.d.stepd.step_writer import StepWriter


class StepNotices:
    """Tells the user what happens to the step.

    Attributes:
        link: the connection to srun, if there is one.
    """

    def __init__(self, writer: "StepWriter", readers: "StepReaders") -> None:
        self.link: SrunLink | None = None
        self._readers = readers
        self._writer = writer
        self._file = -1  # the writer's number of the step's stderr
        self._early: list[bytes] | None = None  # lines that wait for that file

    def hold(self) -> None:
        """Keep lines from now on, until there is a file for them."""
        self._early = []

    def use_file(self, number: int) -> None:
        """Write lines into the file that has this number in the writer."""
        self._file = number

    def release(self) -> None:
        """Write the lines that were kept; no further file comes."""
        early, self._early = self._early, None
        for line in early or ():
            self._writer.say(self._file, line)

    def say(self, text: str) -> None:
        """Write a line in the form of slurmstepd's, to srun or into the step's stderr."""
        self._send(notice(text))

    def show(self, text: str) -> None:
        """Write a line that the user has asked for, to srun or into the step's stderr."""
        self._send(f"{text}\n".encode("utf-8", "surrogateescape"))

    def _send(self, line: bytes) -> None:
        self._readers.notice(line)
        if self.link is not None and self.link.is_open:
            self.link.send(step_io.pack(step_io.NOTICE, step_io.ALL, line))
        elif self._file < 0 and self._early is not None:
            self._early.append(line)
        else:
            self._writer.say(self._file, line)

    def say_all(self, texts: "Iterable[str]") -> None:
        """Write several lines."""
        for text in texts:
            self.say(text)

    def write(self, text: str) -> None:
        """Write a line of another process without a change, into the file only."""
        self._writer.say(self._file, f"{text}\n".encode("utf-8", "surrogateescape"))
