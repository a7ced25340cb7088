"""scontrol create nodename=: dynamic nodes."""

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.cli.command import say
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.control.session import Session


def create(session: "Session", words: "list[str]") -> int:
    """`create nodename=NAMES state=CLOUD|FUTURE ...`: the words are a line of slurm.conf."""
    try:
        session.client.change("CreateNodes", {"line": " ".join(words)})
    except SlurmError as error:
        *lines, last = error.text.split("\n")
        for line in lines:
            say(line)
        if error.code == Errno.ESLURM_INVALID_NODE_COUNT:
            last = "Unable to add node, node table is full"
        say(f"Error creating node(s): {last}")
        return 1
    return 0
