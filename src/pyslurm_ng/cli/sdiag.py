"""sdiag: the controller's counters."""

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.cli.command import connect, read_conf, say, user_name
from pyslurm_ng.cli.listing.list_format import date_line
from pyslurm_ng.cli.option_words import NONE, OPTIONAL, REQUIRED
from pyslurm_ng.cli.program import Program
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Row: TypeAlias = tuple[int, str, int, int]

OPTIONS = (
    ("all", "a", NONE),
    ("autocomplete", "", REQUIRED),
    ("cluster", "M", REQUIRED),
    ("clusters", "M", REQUIRED),
    ("help", "h", NONE),
    ("json", "", OPTIONAL),
    ("no-trunc", "", NONE),
    ("reset", "r", NONE),
    ("sort-by-id", "i", NONE),
    ("sort-by-time", "t", NONE),
    ("sort-by-time2", "T", NONE),
    ("usage", "", NONE),
    ("version", "V", NONE),
    ("yaml", "", OPTIONAL),
)
USAGE = "Usage: sdiag [-M cluster] [-aritT] [--json[=data_parser]] [--no-trunc] [--usage] [-V]"
PROGRAM = Program(
    "sdiag",
    OPTIONS,
    USAGE,
    same={"cluster": "clusters"},
    environment=(("SLURM_CLUSTERS", "clusters"),),
)
_RULE = "*" * 55


def main(argv: "list[str]") -> int:
    """Run sdiag; return its exit code."""
    options, operands = PROGRAM.read(argv)
    PROGRAM.no_operands(operands)
    client = connect(PROGRAM.cluster(options, read_conf("sdiag")))
    if "reset" in options:
        try:
            client.call("ResetDiagnostics", {})
        except SlurmError as error:
            say(f"slurm_reset_statistics: {error.text}")
            return 255
        print("Reset scheduling statistics")
        return 0
    try:
        reply = client.call("ShowDiagnostics", {})
    except SlurmError as error:
        say(f"slurm_get_statistics: {error.text}")
        return 1
    if "json" in options:
        from pyslurm_ng.cli.documents import print_body, tail
        from pyslurm_ng.data_parser.diag import statistics

        cluster = read_conf("sdiag").get("ClusterName", "cluster")
        return print_body({"statistics": statistics(reply), **tail(["sdiag", *argv], cluster)})
    print("\n".join(_lines(reply, options)))
    return 0


def _moment(when_us: int) -> str:
    if when_us <= 0:
        return "N/A"
    return f"{date_line(when_us)} ({when_us // SECOND_US})"


def _lines(reply: "dict[str, Any]", options: "dict[str, str]") -> "list[str]":
    count = reply["counters"].get
    return [
        _RULE,
        f"sdiag output at {_moment(reply['now_us'])}",
        f"Data since      {_moment(reply['since_us'])}",
        _RULE,
        "Server thread count:  1",
        "RPC queue enabled:    0",
        f"Agent queue size:     {count('agent_queue', 0)}",
        f"Agent count:          {count('agents', 0)}",
        "Agent thread count:   0",
        f"DBD Agent queue size: {count('dbd_queue', 0)}",
        "",
        f"Jobs submitted: {count('jobs_submitted', 0)}",
        f"Jobs started:   {count('jobs_started', 0)}",
        f"Jobs completed: {count('jobs_completed', 0)}",
        f"Jobs canceled:  {count('jobs_canceled', 0)}",
        f"Jobs failed:    {count('jobs_failed', 0)}",
        "",
        f"Job states ts:  {_moment(reply['now_us'])}",
        f"Jobs pending:   {count('jobs_pending', 0)}",
        f"Jobs running:   {count('jobs_running', 0)}",
        "",
        *_main_schedule(reply),
        *_backfill(reply),
        *_remote_calls(reply, options),
    ]


def _main_schedule(reply: "dict[str, Any]") -> "list[str]":
    count = reply["counters"].get
    cycles = count("schedule_cycles", 0)
    lines = [
        "Main schedule statistics (microseconds):",
        f"\tLast cycle:   {count('schedule_last_us', 0)}",
        f"\tMax cycle:    {count('schedule_max_us', 0)}",
        f"\tTotal cycles: {cycles}",
    ]
    if cycles:
        minutes = max(1, (reply["now_us"] - reply["since_us"]) // (60 * SECOND_US))
        lines += [
            f"\tMean cycle:   {count('schedule_total_us', 0) // cycles}",
            f"\tMean depth cycle:  {count('schedule_depth', 0) // cycles}",
            f"\tCycles per minute: {cycles // minutes}",
        ]
    lines += [
        f"\tLast queue length: {count('schedule_queue', 0)}",
        "",
        "Main scheduler exit:",
        f"\tEnd of job queue: {cycles}",
        "\tHit default_queue_depth: 0",
        "\tHit sched_max_job_start: 0",
        "\tBlocked on licenses: 0",
        "\tHit max_rpc_cnt: 0",
        "\tTimeout (max_sched_time): 0",
        "",
    ]
    return lines


def _backfill(reply: "dict[str, Any]") -> "list[str]":
    """Return the backfill section: main and backfill are one pass here, so both count it."""
    count = reply["counters"].get
    cycles = count("schedule_cycles", 0)
    lines = [
        "Backfilling stats",
        f"\tTotal backfilled jobs (since last slurm start): {count('backfilled_ever', 0)}",
        f"\tTotal backfilled jobs (since last stats cycle start): {count('backfilled', 0)}",
        f"\tTotal backfilled heterogeneous job components: {count('backfilled_het', 0)}",
        f"\tTotal cycles: {cycles}",
        f"\tLast cycle when: {_moment(count('schedule_when_us', 0))}",
        f"\tLast cycle: {count('schedule_last_us', 0)}",
        f"\tMax cycle:  {count('schedule_max_us', 0)}",
    ]
    if cycles:
        lines.append(f"\tMean cycle: {count('schedule_total_us', 0) // cycles}")
    lines += [
        f"\tLast depth cycle: {count('tested_last_pass', 0)}",
        f"\tLast depth cycle (try sched): {count('tried_last_pass', 0)}",
    ]
    if cycles:
        lines += [
            f"\tDepth Mean: {count('schedule_depth', 0) // cycles}",
            f"\tDepth Mean (try depth): {count('schedule_tried', 0) // cycles}",
        ]
    lines.append(f"\tLast queue length: {count('schedule_queue', 0)}")
    if cycles:
        lines.append(f"\tQueue length mean: {count('schedule_queue_total', 0) // cycles}")
    lines.append(f"\tLast table size: {count('schedule_slots', 0)}")
    if cycles:
        lines.append(f"\tMean table size: {count('schedule_slots_total', 0) // cycles}")
    lines += [
        "",
        "Backfill exit",
        f"\tEnd of job queue: {cycles - count('cut_by_start', 0) - count('cut_by_test', 0)}",
        f"\tHit bf_max_job_start: {count('cut_by_start', 0)}",
        f"\tHit bf_max_job_test: {count('cut_by_test', 0)}",
        "\tSystem state changed: 0",
        "\tHit table size limit (bf_node_space_size): 0",
        "\tTimeout (bf_max_time): 0",
        "",
        f"Latency for 1000 calls to gettimeofday(): {count('clock_latency_us', 0)} microseconds",
        "",
    ]
    return lines


# Rows are (number of a message or user, name, calls, total microseconds).


def _by_count(row: "Row") -> int:
    return -row[2]


_ORDERS: "dict[str, Callable[[Row], int]]" = {
    "sort-by-id": lambda row: row[0],
    "sort-by-time": lambda row: -row[3],
    "sort-by-time2": lambda row: -(row[3] // max(1, row[2])),
}


def _remote_calls(reply: "dict[str, Any]", options: "dict[str, str]") -> "list[str]":
    messages = [
        (number, kind, calls, total)
        for number, (kind, calls, total) in enumerate(reply["messages"])
    ]
    order = next((sort for name, sort in _ORDERS.items() if name in options), _by_count)
    lines = ["Remote Procedure Call statistics by message type"]
    for number, kind, calls, total in sorted(messages, key=order):
        average = total // max(1, calls)
        lines.append(
            f"\t{kind:<40}({number:5d}) count:{calls:<6d} ave_time:{average:<6d} total_time:{total}"
        )
    lines += ["", "Remote Procedure Call statistics by user"]
    for uid, name, calls, total in sorted(reply["users"], key=order):
        average = total // max(1, calls)
        lines.append(
            f"\t{name or user_name(uid):<16}({uid:8d}) count:{calls:<6d} ave_time:{average:<6d}"
            f" total_time:{total}"
        )
    lines += ["", "Pending RPC statistics"]
    if not reply["pending"]:
        lines.append("\tNo pending RPCs")
    for kind, waiting in reply["pending"]:
        lines.append(f"\t{kind:<40} count:{waiting}")
    lines += ["", "Connections, what they hold now, and refusals since the start"]
    lines += [f"\t{call_name:<40} count:{number}" for call_name, number in reply["connections"]]
    if reply["limited"]:
        lines += ["", "Requests told to back off by user"]
    for uid, name, number in reply["limited"]:
        lines.append(f"\t{name or user_name(uid):<16}({uid:8d}) count:{number}")
    if reply["faults"]:
        lines += ["", "Faults by kind (each cost one job, message or record; see slurmctld's log)"]
    for kind, faults in reply["faults"]:
        lines.append(f"\t{kind:<40} count:{faults}")
    return lines
