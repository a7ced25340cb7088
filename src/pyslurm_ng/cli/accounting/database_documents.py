"""Documents of sacctmgr --json."""

from pyslurm_ng.cli.command import write_bytes
from pyslurm_ng.cli.documents import database_tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.accounting.sacctmgr_session import Session


def print_document(session: "Session", key: str, value: "Any") -> int:
    """Print one value of slurmdbd under its key."""
    # It is slow to import, and only this form needs it.
    import json

    body = {key: value, **database_tail(["sacctmgr", *session.argv], session.cluster)}
    write_bytes(json.dumps(body, indent=2).encode() + b"\n")
    return 0
