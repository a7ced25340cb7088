"""sacctmgr list: the columns of each entity, and the few that are not tables."""

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.cli.accounting.sacctmgr_fields import ENTITIES, FIELDS
from pyslurm_ng.cli.accounting.sacctmgr_session import Session, assignment, is_flag
from pyslurm_ng.cli.accounting.table_layout import WIDEST, ends_with_bar, shown
from pyslurm_ng.cli.command import fail, split_list, user_name, write_bytes
from pyslurm_ng.cli.listing.list_format import Dates
from pyslurm_ng.data_parser.records import rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Row = dict[str, Any]

USER_ASSOCIATION = (
    "Cluster,Account,Partition,Share,Priority,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,"
    "MaxCPUMins,QOS,DefaultQOS"
)
ACCOUNT_ASSOCIATION = (
    "Cluster,ParentName,User,Share,Priority,GrpJobs,GrpNodes,GrpCPUs,GrpMem,GrpSubmit,GrpWall,"
    "GrpCPUMins,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxCPUMins,QOS,DefaultQOS"
)
STORED = {
    "Clusters": "Cluster",
    "MaxTRES": "MaxTRESPerJob",
}
"""Fields whose column in the answer has another name."""
TIMES = ("TimeStamp", "TimeStart", "TimeEnd", "TimeSubmit", "TimeEligible")
TREE_WIDTH = 20
_NO_QUOTES = str.maketrans("", "", "\"'")
"""Slurm takes quotes around a format list and around words of it away."""
_LIMITS = ("Grp", "Max", "Min")

Chosen = tuple[str, str, int, bool]
"""Field, header, width, whether aligned to the left."""
OF_THIS_CLUSTER = ("event", "instance", "reservation", "runawayjobs")
"""Entities of which only this cluster's are shown if no cluster is named."""
OF_DAEMONS = ("configuration", "stats")
"""Entities that slurmdbd itself answers, not its records."""


def run(session: Session, entity: str, words: "list[str]") -> int:
    """Print the entity; return the exit code."""
    if entity in OF_DAEMONS:
        return _configuration(session) if entity == "configuration" else _stats(session, words)
    where: list[list[str]] = []
    flags: list[str] = ["withassoc"] if "associations" in session.options else []
    format_text = ""
    for word in words:
        flag = is_flag(word)
        key = word.partition("=")[0].lower()
        if flag:
            flags.append(flag)
        elif word.lower() in ("where", "set"):
            continue
        elif "=" in word and len(key) >= 1 and "format".startswith(key):
            more = word.partition("=")[2].translate(_NO_QUOTES)
            format_text += f",{more}" if format_text else more or ","
        else:
            where.append(assignment(word))
    if entity in ("user", "account") and _names_associations(where):
        flags.append("withassoc")
    kinds = [kind for key, _, value in where for kind in split_list(value.lower())
             if not key or "events".startswith(key.lower())]  # fmt: skip
    if entity in OF_THIS_CLUSTER and "all_clusters" not in flags and not _names_clusters(where):
        where.append(["Clusters", "=", session.cluster])
    text = _format(entity, flags, format_text, kinds)
    if entity == "user" and not format_text and _tracks_wckeys(session):
        text = text.replace("DefaultAccount", "DefaultAccount,DefaultWCKey", 1)
    fields = choose(text, "tree" in flags)
    if "wopinfo" in flags:
        flags.append("woplimits")  # as its manual says, but for the columns
    answer = session.call("ListEntities", {"entity": entity, "where": where, "flags": flags})
    rows = rows_of(answer)
    if entity == "runawayjobs":
        from pyslurm_ng.cli.accounting import runaway_jobs

        rows = runaway_jobs.of_all_open(session, where, rows)
    if "json" in session.options:
        return _print_json(session, entity, rows)
    if "tree" in flags and entity == "federation":
        rows = _federation_tree(rows)
    elif "tree" in flags:
        _indent(rows)
    if "wopinfo" in flags:
        for row in rows:
            row["ParentID"], row["ParentName"] = 0, ""
    if "withcoordinators" not in flags:
        for row in rows:
            row.pop("Coordinators", None)  # as in Slurm only this option fills them in
    if entity == "runawayjobs" and not rows:
        names = ",".join(value for key, _, value in where if key[:1].lower() == "c")
        print(f"Runaway Jobs: No runaway jobs found on cluster {names}")
        return 0
    if entity == "runawayjobs":
        print(runaway_jobs.NOTE)
    _print_table(session, fields, rows, answer["now_us"])
    return runaway_jobs.offer(session, rows) if entity == "runawayjobs" else 0


def _indent(rows: "list[Row]") -> None:
    """Put a blank before an account for each account above it that is listed, too."""
    depths: dict[tuple[str, int], int] = {}
    for row in rows:
        depth = depths.get((row["Cluster"], row["ParentID"]), -1) + 1
        depths[row["Cluster"], row["ID"]] = depth
        row["Account"] = " " * depth + row["Account"]


def _federation_tree(rows: "list[Row]") -> "list[Row]":
    """Return each federation on a line of its own above those of its clusters."""
    shown: list[Row] = []
    name = None
    for row in rows:
        if row["Federation"] != name:
            name = row["Federation"]
            shown.append({**dict.fromkeys(row, ""), "Federation": name})
        if row["Cluster"]:
            shown.append({**row, "Federation": ""})
    return shown


def _print_json(session: Session, entity: str, rows: "list[Row]") -> int:
    from pyslurm_ng.cli.accounting.database_documents import print_document
    from pyslurm_ng.data_parser import accounting_records

    ids = accounting_records.USUAL_TRES_IDS
    if entity == "association":
        answer = session.call("ListEntities", {"entity": "tres", "where": [], "flags": []})
        ids = {**ids, **accounting_records.tres_ids(rows_of(answer))}
    key, objects = accounting_records.objects(entity, rows, ids)
    if not key:
        fail(f"sacctmgr: error: --json is not available for {entity}")
    return print_document(session, key, objects)


def _tracks_wckeys(session: Session) -> bool:
    return session.conf.get("TrackWCKey", "").lower() in ("yes", "true", "1", "on")


def _names_clusters(where: "list[list[str]]") -> bool:
    return any((key and "clusters".startswith(key.lower())) or key.lower() == "all_clusters"
               for key, _, _ in where)  # fmt: skip


def _names_associations(where: "list[list[str]]") -> bool:
    return any(
        key and any(name.startswith(key.lower()) for name in ("accounts", "partitions", "clusters"))
        for key, _, _ in where
        if len(key) >= 2
    ) and any(key.lower().startswith(("part",)) for key, _, _ in where)


def _format(entity: str, flags: "list[str]", format_text: str, kinds: "list[str]") -> str:
    """Return the fields to show: those of format=, or the entity's own."""
    if format_text:
        return format_text
    text = ENTITIES[entity][1]
    if entity == "event" and kinds and all("cluster".startswith(kind) for kind in kinds):
        return "Cluster,TRES,TimeStart,TimeEnd,ClusterNodes"
    coordinators = ",Coordinators" if "withcoordinators" in flags else ""
    if entity == "user":  # of an account they come last
        text += coordinators
    if "withassoc" in flags and entity in ("user", "account"):
        text += "," + (USER_ASSOCIATION if entity == "user" else ACCOUNT_ASSOCIATION)
    if entity == "transaction" and ("withassocinfo" in flags or "withassoc" in flags):
        text += ",User,Account,Cluster"
    if "withfed" in flags and entity == "cluster":
        text += ",Federation,ID,Features,FedState"
    if "withclusters" in flags and entity == "resource":
        text += ",Cluster,Allowed"
    if entity == "account":
        text += coordinators
    if "wolimits" in flags or "woplimits" in flags:
        if entity == "association":
            return "Cluster,Account,User,Partition"
        left_out = (*_LIMITS, "Share", "QOS", "Default") if entity == "cluster" else _LIMITS
        text = ",".join(name for name in split_list(text) if not name.startswith(left_out))
    return text


def choose(text: str, is_tree: bool) -> "list[Chosen]":
    """Return the fields of a format list; exit on one that does not exist."""
    chosen: list[Chosen] = []
    for word in split_list(text) or [""]:
        name, _, size = word.partition("%")
        field = _field(name) if name.strip() else None
        if field is None:
            fail(f"Unknown field '{name}'")
        full, _, header, width, is_left = field
        if full == "Account" and is_tree:
            width, is_left = TREE_WIDTH, not size
        asked_width = _width(size)
        if asked_width > WIDEST:
            fail(f"format={word}: a width is at most {WIDEST}")
        chosen.append((full, header, asked_width or width, size[:1] == "-" or is_left))
    return chosen


def _width(text: str) -> int:
    """Return the number at the beginning of a width; 0, which is the usual width, if none."""
    digits = ""
    for letter in text[1:] if text[:1] in ("-", "+") else text:
        if letter not in "0123456789":
            break
        digits += letter
    return int(digits[:9] or 0)


_WCKEY = ("WCKeys", (), "WCKey", 10, False)
"""The column of `list wckey`: one key, not a user's list."""


_SHARED = (
    "ac", "control", "default", "e", "fe", "grpcp", "grptre", "i", "maxcpu", "maxtre",
    "maxtresper", "mincpu", "mintre", "node", "parent", "preemp", "qo", "t", "usage", "w",
)  # fmt: skip
"""Fields share these beginnings, and Slurm takes none of them, nor shorter ones but for some."""
_TAKEN = ("p", "pr", "u", "us")


def _field(name: str) -> "tuple[str, tuple[str, ...], str, int, bool] | None":
    lower_name = name.lower().replace(" ", "")
    if lower_name == "wckey":
        return _WCKEY
    for field in FIELDS:
        names = (field[0], *field[1], field[2].replace(" ", ""))
        if any(name.lower() == lower_name for name in names):
            return field
    if lower_name not in _TAKEN and any(shared.startswith(lower_name) for shared in _SHARED):
        return None
    for field in FIELDS:
        names = (field[0], *field[1], field[2].replace(" ", ""))
        if any(name.lower().startswith(lower_name) for name in names):
            return field
    return None


def _print_table(session: Session, fields: "list[Chosen]", rows: "list[Row]", now_us: int) -> None:
    from pyslurm_ng.kernels.records import MARK, RIGHT, render

    options = session.options
    dates = Dates(now_us)
    cells = [[_cell(row, field[0], dates) for field in fields] for row in rows]
    header = [[field[1] for field in fields]]
    if "parsable" in options or "parsable2" in options:
        tail = "|" if ends_with_bar(options) else ""
        spec = [(0, 0, "|")] * (len(fields) - 1) + [(0, 0, tail)]
        output = b"" if "noheader" in options else render(header, spec)
        write_bytes(output + render(cells, spec))
        return
    spec = [(width, (0 if is_left else RIGHT), " ") for _, _, width, is_left in fields]
    output = b""
    if "noheader" not in options:
        output = render([*header, ["-" * width for _, _, width, _ in fields]], spec)
    marked = [(width, flags | MARK, tail) for width, flags, tail in spec]
    write_bytes(output + render(cells, marked))


def _cell(row: "Row", name: str, dates: Dates) -> "str | int":
    value = row.get(STORED.get(name, name))
    if value is None:
        return ""
    if name in TIMES:
        return dates.text(value, "Unknown")
    if name == "TRES" and "mem=" in value:
        return _with_unit(value)
    if name == "User" and isinstance(value, int):
        return user_name(value) if value >= 0 else ""
    return shown(value)


def _with_unit(tres: str) -> str:
    """Return what clusters and nodes have with the unit of memory, as Slurm shows it."""
    from pyslurm_ng.base.units import format_mem_mib

    words = tres.split(",")
    for index, word in enumerate(words):
        name, _, amount = word.partition("=")
        if name == "mem" and amount.isdecimal():
            words[index] = f"mem={format_mem_mib(int(amount))}"
    return ",".join(words)


# What is no table -----------------------------------------------------------------------------


def _configuration(session: Session) -> int:
    from time import time

    from pyslurm_ng import __version__
    from pyslurm_ng.conf.quick import find_conf

    pairs = session.call("ShowDbdConfig", {})["pairs"]
    if "json" in session.options:
        from pyslurm_ng.cli.accounting.database_documents import print_document
        from pyslurm_ng.data_parser.slurmdbd import configuration

        return print_document(session, "slurmdbd_conf", configuration(pairs))
    conf = session.conf
    service = conf.get("SlurmUser", "root")
    from pyslurm_ng.cli.command import uid_of

    print(f"Configuration data as of {Dates(0).text(int(time()) * SECOND_US)}")
    for name, value in (
        ("AccountingStorageBackupHost ", conf.get("AccountingStorageBackupHost", "(null)")),
        ("AccountingStorageHost ", conf.get("AccountingStorageHost", "localhost")),
        ("AccountingStorageParameters", conf.get("AccountingStorageParameters", "(null)")),
        ("AccountingStoragePass ", "(null)"),
        ("AccountingStoragePort ", conf.get("AccountingStoragePort", "6819")),
        ("AccountingStorageType ", conf.get("AccountingStorageType", "")),
        ("AuthType", conf.get("AuthType", "auth/munge")),
        ("MessageTimeout", f"{conf.get('MessageTimeout', '10')} sec"),
        ("PluginDir", conf.get("PluginDir", "(null)")),
        ("PrivateData", conf.get("PrivateData", "none")),
        ("SlurmUserId", f"{service}({uid_of(service)})"),
        ("SLURM_CONF", find_conf()),
        ("SLURM_VERSION", __version__),
        ("TCPTimeout", f"{conf.get('TCPTimeout', '2')} sec"),
        ("TrackWCKey", "Yes" if _tracks_wckeys(session) else "No"),
    ):
        print(f"{name:<22s} = {value}")
    print("\nSlurmDBD configuration:")
    for name, value in pairs:
        is_user = name == "SlurmUser"
        print(f"{name:<22s} = {f'{value}({uid_of(value)})' if is_user else value}")
    return 0


_STATISTICS_ORDERS: "dict[str, Callable[[Any], int]]" = {
    "": lambda row: -row[1],
    "ave_time": lambda row: -(row[2] // row[1]),
    "total_time": lambda row: -row[2],
}
"""How rows of (name, count, microseconds) are sorted."""


def _stats(session: Session, words: "list[str]") -> int:
    from time import localtime, strftime

    order = words[-1].lower() if words else ""
    for word in words:
        if word.lower() not in _STATISTICS_ORDERS:
            fail(f" Unknown option: {word}: ave_time and total_time are allowed")
    by_order = _STATISTICS_ORDERS[order]
    answer = session.call("ShowDbdStats", {})
    if "json" in session.options:
        from pyslurm_ng.cli.accounting.database_documents import print_document
        from pyslurm_ng.data_parser.slurmdbd import statistics

        return print_document(session, "statistics", statistics(answer))

    def shown(us: int) -> str:
        seconds = us // SECOND_US
        return f"{strftime('%a %b %d %H:%M:%S %Y', localtime(seconds))} ({seconds})"

    line = "*" * 67
    print(line)
    print(f"sacctmgr show stats output at {shown(answer['now_us'])}")
    print(f"Data since                    {shown(answer['start_us'])}")
    print("All statistics are in microseconds")
    print(line)
    _print_roll_ups(answer["roll_ups"], shown)
    print(f"\nJournal records stored: {answer['records_ingested']}")
    print(f"Database errors retried: {answer['database_retries']}")
    for kind, count in answer["faults"].items():
        print(f"Faults ({kind}): {count}")
    print("\nRemote Procedure Call statistics by message type")
    for kind, count, total in sorted(answer["by_kind"], key=by_order):
        print(f"\t{kind:<24s} count:{count:<6d} ave_time:{total // count:<6d} total_time:{total}")
    print("\nRemote Procedure Call statistics by user")
    for uid, count, total in sorted(answer["by_uid"], key=by_order):
        print(
            f"\t{user_name(uid):<20s}({uid:10d}) count:{count:<6d} "
            f"ave_time:{total // count:<6d} total_time:{total}"
        )
    return 0


def _print_roll_ups(
    rows: "list[tuple[str, int, int, int, int, int]]", shown: "Callable[[int], str]"
) -> None:
    """Print how often usage was rolled up; nothing if it was not since counting began."""
    for kind, count, last_us, last, most, total in rows:
        if kind == "cycle":
            print(f"\nInternal DBD rollup last ran {shown(last_us)}")
            for name, number in (
                ("Last cycle:", last), ("Max cycle:", most), ("Total time:", total),
                ("Total cycles:", count), ("Mean cycle:", total // count),
            ):  # fmt: skip
                print(f"\t{name:<13s} {number}")
    for kind, count, _, _, most, total in rows:
        if kind != "cycle":
            print(
                f"\t{kind.capitalize():<5s} count:{count:<6d} ave_time:{total // count:<6d} "
                f"max_time:{most:<6d} total_time:{total}"
            )
