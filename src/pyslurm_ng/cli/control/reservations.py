"""scontrol create, update, delete and show reservation; `sinfo -T`."""

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.cli.command import Table, fail, say
from pyslurm_ng.cli.control.keys import entity_of, find_key
from pyslurm_ng.cli.control.session import null, print_record
from pyslurm_ng.cli.listing.list_format import Dates, long_time
from pyslurm_ng.data_parser.reservations import core_ids
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.control.session import Session
    from pyslurm_ng.wire.client import Client

    Row = dict[str, Any]

KEYS = (
    "Accounts AllowedPartitions BurstBuffer Comment CoreCnt Duration EndTime Features Flags Groups "
    "Licenses MaxStartDelay NodeCnt Nodes PartitionName QOS Skip StartTime TRES TRESPerNode Users"
).split()
_ALIASES = {
    "account": "accounts",
    "end": "endtime",
    "feature": "features",
    "flag": "flags",
    "group": "groups",
    "license": "licenses",
    "nodecount": "nodecnt",
    "partition": "partitionname",
    "start": "starttime",
    "user": "users",
}
_ONE_PARTITION = (
    "Note, unless nodes are directly requested a reservation must exist in a single partition.\n"
    "If no partition is requested the default partition is assumed."
)
_WHO = ("users", "accounts", "groups", "qos", "allowedpartitions")
_SIZES = ("nodes", "nodecnt", "corecnt", "tres", "trespernode", "licenses", "burstbuffer")


def create(session: "Session", words: "list[str]") -> int:
    """Make a reservation and print its name."""
    request = _request(session, words, is_new=True)
    if isinstance(request, int):
        return request
    problem = _lacks(request["settings"])
    if problem:
        say(f"scontrol: error: {problem}  {_nothing_done(is_new=True)}")
        return 1
    return _change(session, {**request, "create": True}, "creating", "Reservation created: {}")


def _lacks(settings: "dict[str, str]") -> str:
    """Return what a new reservation lacks, or ""."""
    begin, end = settings.get("starttime"), settings.get("endtime")
    if begin is None:
        return "A start time must be given."
    if end is None and "duration" not in settings:
        return "An end time or duration must be given."
    if end and begin and int(end) < int(begin):
        return "Start time cannot be after end time."
    is_whole = "PART_NODES" in _flag_words(settings)
    if not is_whole and not any(settings.get(key) for key in _SIZES):
        return "CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or TRES must be specified."
    if not any(settings.get(key + sign) for key in _WHO for sign in ("", "+", "-")):
        return "Either Users/Groups and/or Accounts must be specified."
    if is_whole and not _is_whole_partition(settings):
        return "PART_NODES flag requires specifying a Partition and ALL nodes."
    return ""


def update(session: "Session", words: "list[str]") -> int:
    """Change a reservation."""
    request = _request(session, words, is_new=False)
    if isinstance(request, int):
        return request
    if not request["name"]:
        return _refused("Requested reservation is invalid", is_new=False)
    return _change(session, request, "updating", "Reservation updated.")


def _refused(why: str, *, is_new: bool) -> int:
    """Print what Slurm prints for a refusal of the controller's; return the exit code."""
    say(f"Error {'creating' if is_new else 'updating'} the reservation: {why}")
    if not is_new:
        say(f"slurm_update error: {why}")
    return 1


def _nothing_done(*, is_new: bool) -> str:
    return "No reservation created." if is_new else "No reservation update."


def _request(session: "Session", words: "list[str]", *, is_new: bool) -> "dict[str, Any] | int":
    """Return the request that words ask for, or an exit code after an error line."""
    name = ""
    settings: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        sign = key[-1:] if key[-1:] in ("+", "-") else ""
        key = key.rstrip("+-")
        if entity_of(key) == "reservationname" or key.lower() == "name":
            name = value
            continue
        known = find_key(key, KEYS, _ALIASES)
        if known == "nodes" and len(key) < len(known):
            known = ""  # a partition's may be abbreviated, a reservation's not
        problem = _bad_word(word, known) or _bad_sign(known, key, sign)
        if problem:
            say(f"scontrol: error: {problem}.  {_nothing_done(is_new=is_new)}")
            return 1
        if known in ("starttime", "endtime"):
            value = _moment(word, value, is_new=is_new)
        elif known == "users" and not _are_users(value):
            return _refused("Invalid user id", is_new=is_new)
        elif not _is_value(known, word, value, is_new=is_new):
            return 1
        settings[known + sign] = value
    if settings.get("users") and settings.get("groups"):
        say(
            "scontrol: error: Users and Groups are mutually exclusive.  You can have one or the "
            f"other, but not both.  {_nothing_done(is_new=is_new)}"
        )
        return 1
    if settings.get("starttime") == "":
        return _refused("Invalid time specified", is_new=is_new)
    if settings.get("endtime") == "":
        if not is_new:
            return _refused("Invalid time specified", is_new=False)
        del settings["endtime"]
    return {"name": name, "settings": settings}


def _bad_word(word: str, known: str) -> str:
    """Return why a word is no key with its value, or ""."""
    if "=" not in word:
        text = f"Misformatted parameter '{word}', most options have a parameter after '='"
        return "" if known == "skip" else text
    return "" if known and known != "skip" else f"Unknown parameter {word}"


def _bad_sign(known: str, typed: str, sign: str) -> str:
    """Return why a key takes no `+=` or `-=`, or ""."""
    if not sign or known not in ("corecnt", "nodecnt"):
        return ""
    return f"The +=/-= notation is not supported when updating {typed}"


def _is_value(key: str, word: str, value: str, *, is_new: bool) -> bool:
    """Return whether a key takes a value, after Slurm's words if it does not."""
    from pyslurm_ng.cli.control import reservation_values

    if key == "groups" and not reservation_values.are_groups(value):
        _refused("Invalid group id", is_new=is_new)
        return False
    problem = reservation_values.complaint(key, word, value)
    if problem:
        end = f".  {_nothing_done(is_new=is_new)}" if reservation_values.ends_line(key) else ""
        say(f"scontrol: error: {problem}{end}")
    return not problem


def _flag_words(settings: "dict[str, str]") -> "list[str]":
    return settings.get("flags", "").upper().split(",")


def _is_whole_partition(settings: "dict[str, str]") -> bool:
    """Return whether a partition is named with all of its nodes or without any."""
    sizes = [key for key in _SIZES if settings.get(key) and key != "licenses"]
    is_all = settings.get("nodes", "ALL").upper() == "ALL"
    return bool(settings.get("partitionname")) and is_all and sizes in ([], ["nodes"])


def _are_users(value: str) -> bool:
    from pyslurm_ng.cli.command import uid_of

    return all(uid_of(name.lstrip("+-")) >= 0 for name in value.split(",") if name)


def _moment(word: str, value: str, *, is_new: bool) -> str:
    """Return microseconds since the epoch, in decimal, for a date as typed; "" for an empty one."""
    from time import time

    from pyslurm_ng.base.dates import DateError, parse_date

    if not value:
        return ""
    try:
        return str(parse_date(value, int(time())) * SECOND_US)
    except DateError as problem:
        which = "start" if word.lower().startswith("s") else "end"
        say(str(problem))
        fail(f"scontrol: error: Invalid {which} time {word}.  {_nothing_done(is_new=is_new)}")


def _change(session: "Session", request: "dict[str, Any]", doing: str, done: str) -> int:
    is_new = bool(request.get("create"))
    try:
        reply = session.client.change("UpdateReservation", request)
    except SlurmError as error:
        from pyslurm_ng.base.error_numbers import Errno

        detail = error.text.rpartition("\n")[0]
        if detail.startswith("Error parsing flags"):
            fail(f"scontrol: error: {detail}  {_nothing_done(is_new=is_new)}")
        if error.code == Errno.ESLURM_NODES_BUSY and is_new:
            print(_ONE_PARTITION)
        if detail:
            say(f"scontrol: error: {detail}")
        return _refused(_last_line(error), is_new=is_new)
    print(done.format(reply["name"]))
    return 0


def _last_line(error: SlurmError) -> str:
    return error.text.rpartition("\n")[2]


# Showing --------------------------------------------------------------------------------------


def show(session: "Session", words: "list[str]") -> int:
    """Print reservations: all, or the one named."""
    name = words[0] if words else ""
    try:
        reply = session.client.call("ShowReservations", {"name": name})
    except SlurmError as error:
        session.complain(f"slurm_load_reservations error: {error.text}")
        return 1
    rows = _rows(reply)
    if session.json:
        return print_json(session.json, reply, rows)
    session.count(reply, rows)
    if not rows:
        if name:
            session.miss(f"Reservation {name} not found")
            return 1
        print("No reservations in the system")
    dates = Dates(reply["now_us"])
    for row in rows:
        print_record(session, _lines(row, dates, reply["now_us"]))
    return 0


def _rows(reply: "dict[str, Any]") -> "list[Row]":
    return Table(reply["fields"], reply["records"], reply["fields"]).dicts()


def _lines(row: "Row", dates: Dates, now_us: int) -> "list[str]":
    delay_s = row["max_start_delay_s"]
    lines = [
        f"ReservationName={row['name']} StartTime={dates.text(row['start_us'])}"
        f" EndTime={dates.text(row['end_us'])}"
        f" Duration={long_time((row['end_us'] - row['start_us']) // SECOND_US)}",
        f"Nodes={null(row['nodes'])} NodeCnt={row['node_count']} CoreCnt={row['core_count']}"
        f" Features={null(row['features'])} PartitionName={null(row['partition'])}"
        f" Flags={_flags_text(row)}",
        *[f"  NodeName={name} CoreIDs={cores}" for name, cores in core_ids(row)],
        f"TRES={null(row['tres'])}",
        f"AllowedPartitions={null(row.get('allowed_partitions', ''))} QOS={null(row['qos'])}",
        f"Users={null(row['users'])} Groups={null(row['groups'])}"
        f" Accounts={null(row['accounts'])} Licenses={null(row['licenses'])}"
        f" State={state(row, now_us)} BurstBuffer={null(row.get('burst_buffer', ''))}",
        f"MaxStartDelay={long_time(delay_s) if delay_s else '(null)'}",
    ]
    if row["comment"]:
        lines.append(f"Comment={row['comment']}")
    return lines


def state(row: "Row", now_us: int) -> str:
    """Return ACTIVE while a reservation is in force, else INACTIVE."""
    return "ACTIVE" if row["start_us"] <= now_us < row["end_us"] else "INACTIVE"


def _flags_text(row: "Row") -> str:
    words = [flag for flag in row["flags"].split(",") if flag]
    if "PURGE_COMP" in words:
        words[words.index("PURGE_COMP")] = f"PURGE_COMP={long_time(row['purge_s'])}"
    return ",".join(words)


def print_json(argv: "list[str]", reply: "dict[str, Any]", rows: "list[Row]") -> int:
    """Print reservations as Slurm's JSON."""
    from pyslurm_ng.cli.documents import print_records
    from pyslurm_ng.data_parser.reservations import reservation_object

    return print_records(argv, "reservations", map(reservation_object, rows), reply)


def print_table(client: "Client", *, with_header: bool, json_argv: "list[str] | None") -> int:
    """Print the table of `sinfo -T`."""
    reply = client.call("ShowReservations", {})
    rows = _rows(reply)
    if json_argv is not None:
        return print_json(json_argv, reply, rows)
    if not rows:
        print("No reservations in the system")
        return 0
    dates, now_us = Dates(reply["now_us"]), reply["now_us"]
    width = max(9, *[len(row["name"]) for row in rows])
    line = "{:<" + str(width) + "}  {:>8}  {:>19}  {:>19}  {:>11}  {}"
    if with_header:
        print(line.format("RESV_NAME", "STATE", "START_TIME", "END_TIME", "DURATION", "NODELIST"))
    for row in rows:
        start_us, end_us = row["start_us"], row["end_us"]
        duration = long_time((end_us - start_us) // SECOND_US)
        begin, end = dates.text(start_us), dates.text(end_us)
        nodes = row["nodes"] or "(null)"  # of a reservation of licences
        print(line.format(row["name"], state(row, now_us), begin, end, duration, nodes))
    return 0
