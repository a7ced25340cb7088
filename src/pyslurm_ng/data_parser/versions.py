"""Documents of commands in older versions: `squeue --json=v0.0.43`."""

from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.data_parser.schemas import conform, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OF_CONTROLLER = {
    "jobs": "openapi_job_info_resp", "licenses": "openapi_licenses_resp",
    "nodes": "openapi_nodes_resp", "partitions": "openapi_partition_resp",
    "pings": "openapi_ping_array_resp", "reservations": "openapi_reservation_resp",
    "shares": "openapi_shares_resp", "statistics": "openapi_diag_resp",
}  # fmt: skip
_OF_DATABASE = {
    "TRES": "openapi_tres_resp", "accounts": "openapi_accounts_resp",
    "associations": "openapi_assocs_resp", "clusters": "openapi_clusters_resp",
    "jobs": "openapi_slurmdbd_jobs_resp", "pings": "openapi_slurmdbd_ping_resp",
    "qos": "openapi_slurmdbd_qos_resp", "statistics": "openapi_slurmdbd_stats_resp",
    "users": "openapi_users_resp", "wckeys": "openapi_wckey_resp",
}  # fmt: skip
_DATABASE_COMMANDS = ("sacct", "sacctmgr")


def version_named(text: str) -> str:
    """Return the version that the value of --json names, "" for none that there is.

    `data_parser/` may stand before it, and flags of Slurm's parsers (`+fast`) after it.
    """
    name = text.removeprefix("data_parser/").partition("+")[0]
    return name if name in VERSIONS else ""


def of_version(document: "dict[str, Any]", version: str) -> "dict[str, Any]":
    """Return a document of the newest version as another one has it.

    Records that no version describes (`sinfo`, `steps`) stay as they are.
    """
    meta = document["meta"]
    is_of_database = (meta["command"] or [""])[0] in _DATABASE_COMMANDS
    names = _OF_DATABASE if is_of_database else _OF_CONTROLLER
    whole = {}
    for key, value in document.items():
        parts = schema(names[key], version)["properties"] if key in names else {}
        whole[key] = conform(value, parts[key], version) if key in parts else value
    whole["meta"] = {**meta, "plugin": {**meta["plugin"], "data_parser": f"data_parser/{version}"}}
    return whole
