"""scontrol show burstbuffer, and bbstat: what the site's functions say."""

from pyslurm_ng.cli.command import printable
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.control.session import Session


def show(session: "Session", entity: str, words: "list[str]") -> int:
    """Print burst buffers, or the site's status; nothing where BurstBufferType is not set."""
    if not session.conf.get("BurstBufferType"):
        return 0  # as in Slurm
    try:
        if entity == "burstbuffer":
            lines = session.client.call("ShowBurstBuffers", {})["lines"]
            if lines:
                print("\n".join(map(printable, lines)))
            return 0
        text = str(session.client.call("AskBufferStatus", {"words": words})["text"])
    except SlurmError as error:
        session.complain(f"slurm_load_burst_buffer error: {error.text}")
        return 1
    if text:
        print("\n".join(map(printable, text.splitlines())))
    return 0
