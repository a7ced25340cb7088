"""scontrol ping as JSON."""

from pyslurm_ng.cli.command import write_bytes
from pyslurm_ng.cli.listing.json_text import document, encode, tail


def print_ping(
    argv: "list[str]", cluster: str, hosts: "list[str]", is_up: bool, latency_us: int
) -> None:
    """Print which controllers answer, and how long the primary one took, in microseconds.

    Standby controllers do not answer yet.
    """
    records = []
    for index, host in enumerate(hosts):
        responds = is_up and not index
        record = {
            "hostname": host,
            "responding": responds,
            "latency": latency_us if responds else -1,
            "primary": not index,
            "status": "No error" if responds else "Communication connection failure",
        }
        records.append(encode(record, 2))
    write_bytes(document("pings", records, tail(argv, cluster)))
