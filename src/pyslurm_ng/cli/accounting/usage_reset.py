"""sacctmgr modify ... set RawUsage=0: whose cluster it is about, and its question."""

from pyslurm_ng.cli.accounting.sacctmgr_session import commit
from pyslurm_ng.cli.command import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.accounting.sacctmgr_session import Session


def resets_usage(settings: "list[list[str]]") -> bool:
    """Return whether one of the settings is RawUsage or its beginning."""
    return any(key and "rawusage".startswith(key.lower()) for key, _, _ in settings)


def reset_usage(session: "Session", request: "dict[str, Any]") -> int:
    """Say which cluster it is about if none is named, ask, and reset; return the exit code."""
    where: list[list[str]] = request["where"]
    names = [key.lower() or "names" for key, _, _ in where]
    if request["entity"] == "user" and not any("accounts".startswith(name) for name in names):
        say("sacctmgr: error: An account must be specified")
        return 1
    is_named = any(len(key) > 1 and "clusters".startswith(key.lower()) for key, _, _ in where)
    if not is_named:
        if request["entity"] != "qos":  # a QOS is of all clusters
            request["where"] = [*where, ["Clusters", "=", session.cluster]]
        print(f"No cluster specified, resetting on local cluster {session.cluster}")
    question = "Would you like to reset usage? (You have 30 seconds to decide)"
    return commit(session, "ChangeEntities", request, question=question)
