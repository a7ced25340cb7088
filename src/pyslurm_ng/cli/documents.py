"""Documents of --json and --yaml: the records of `data_parser`, and who asked for them."""

import os

from pyslurm_ng.cli.command import user_name, write_bytes
from pyslurm_ng.data_parser.envelope import envelope
from pyslurm_ng.data_parser.json_text import document, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def tail(
    argv: "list[str]",
    cluster: str,
    *,
    last_update_us: int = -1,
    accounting_storage: "str | None" = None,
) -> "dict[str, Any]":
    """Return what follows the records.

    Args:
        accounting_storage: the kind of accounting; None means that of slurm.conf.
    """
    if accounting_storage is None:
        accounting_storage = _accounting_storage()
    return envelope(
        cluster=cluster,
        client={"source": "", "user": user_name(os.getuid()), "group": group_name(os.getgid())},
        command=argv,
        accounting_storage=accounting_storage,
        last_update_us=last_update_us,
    )


def database_tail(argv: "list[str]", cluster: str) -> "dict[str, Any]":
    """Return what follows records of slurmdbd."""
    return tail(argv, cluster, accounting_storage="accounting_storage/slurmdbd")


def print_records(
    argv: "list[str]", key: str, records: "Iterable[dict[str, Any]]", reply: "dict[str, Any]"
) -> int:
    """Print a list of records of the controller as one document."""
    more = tail(argv, reply["cluster_name"], last_update_us=reply["last_update_us"])
    write_bytes(document(key, [encode(record, 2) for record in records], more))
    return 0


def print_body(body: "dict[str, Any]") -> int:
    """Print a whole document."""
    write_bytes((encode(body, 0) + "\n").encode())
    return 0


def _accounting_storage() -> str:
    """Return the kind of accounting of slurm.conf, "" if there is none."""
    from pyslurm_ng.conf.quick import find_conf, quick

    try:
        kind = quick(find_conf(), ("AccountingStorageType",)).get("AccountingStorageType", "")
    except OSError:
        return ""
    return "" if kind == "accounting_storage/none" else kind


def group_name(gid: int) -> str:
    """Return a group's name, or its number."""
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
