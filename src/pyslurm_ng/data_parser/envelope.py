"""What every document says beside its records: who asked whom, and what went wrong."""

from pyslurm_ng.data_parser.json_text import seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSIONS = ("v0.0.43", "v0.0.44", "v0.0.45", "v0.0.46")
"""The layouts of documents, oldest first; makers of records write the last."""
NEWEST = VERSIONS[-1]


def envelope(
    *,
    cluster: str,
    client: "dict[str, str]",
    command: "list[str]",
    version: str = NEWEST,
    plugin: "tuple[str, str]" = ("", ""),
    accounting_storage: str = "",
    last_update_us: int = -1,
) -> "dict[str, Any]":
    """Return what follows the records: when they changed, who asked what, and no errors.

    Args:
        client: source, user and group of who asks.
        command: its words; empty for slurmrestd.
        plugin: type and name of what answers, for slurmrestd.
        last_update_us: -1 where records have no common time of change.
    """
    from pyslurm_ng import __version__

    major, minor, rest = (*__version__.split("."), "", "")[:3]
    last: dict[str, Any] = {}
    if last_update_us >= 0:
        last["last_update"] = seconds(last_update_us)
    return {
        **last,
        "meta": {
            "plugin": {
                "type": plugin[0],
                "name": plugin[1],
                "data_parser": f"data_parser/{version}",
                "accounting_storage": accounting_storage,
            },
            "client": client,
            "command": command,
            "slurm": {
                "version": {"major": major, "micro": rest.partition("-")[0], "minor": minor},
                "release": __version__,
                "cluster": cluster,
            },
        },
        "errors": [],
        "warnings": [],
    }
