"""sshare: what associations are due, what they have used, and their fair-share factors."""

import os

from pyslurm_ng.cli.accounting.sshare_fields import (
    CLASSIC_LONG_FORMAT,
    FAIR_TREE_FORMAT,
    FAIR_TREE_LONG_FORMAT,
    FIELDS,
    OPTIONS,
)
from pyslurm_ng.cli.accounting.table_layout import TableLayout, choose_fields, field_list, shown
from pyslurm_ng.cli.command import (
    fail,
    read_conf,
    say,
    split_list,
    uid_of,
    user_name,
    write_bytes,
)
from pyslurm_ng.cli.program import OptionValues, Program, names_clusters, on_clients
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.wire.client import Client

    Row = dict[str, Any]

USAGE = (
    "Usage: sshare [-a] [-A accounts] [-l] [-m] [-M cluster] [-n] [-o fields] [-p|-P]\n"
    "              [-u users] [-U] [-v] [-V] [--json|--yaml] [--helpformat] [--usage]"
)
PROGRAM = Program(
    "sshare",
    OPTIONS,
    USAGE,
    same={"cluster": "clusters"},
    environment=(("SLURM_CLUSTERS", "clusters"),),
    tells={"helpformat": lambda: field_list(FIELDS)},
)


def main(argv: "list[str]") -> int:
    """Run sshare; return its exit code."""
    options, _ = PROGRAM.read(argv)
    conf = read_conf("sshare", "PriorityType", "PriorityFlags")
    clusters = PROGRAM.clusters(options, conf)
    if conf.get("PriorityType", "priority/multifactor").lower().endswith("basic"):
        fail(
            "You are not running a supported priority plugin\n"
            f"({conf['PriorityType']}).\nOnly 'priority/multifactor' is supported."
        )
    flags = {flag.upper() for flag in split_list(conf.get("PriorityFlags", ""))}
    is_fair_tree = flags.isdisjoint({"NO_FAIR_TREE", "DEPTH_OBLIVIOUS"})
    accounts, users = _accounts(options), _users(options)
    if "verbose" in options:
        _say_request(users, accounts)
    with_name = names_clusters(options)

    def show(client: "Client", cluster: str) -> int:
        if with_name:
            print(f"CLUSTER: {cluster}")
        try:
            reply = client.call("ShowAssociations", {"parts": ["assoc"]})
        except SlurmError as error:
            fail(f"sshare: error: Couldn't get shares from controller: {error.text}")
        rows = _chosen(reply["associations"], options, users, accounts)
        if "json" in options:
            from pyslurm_ng.cli.documents import print_body, tail
            from pyslurm_ng.data_parser.shares import shares

            more = tail(["sshare", *argv], reply["cluster_name"])
            return print_body({"shares": shares(rows, reply), **more})
        return _print(rows, reply, options, is_fair_tree=is_fair_tree)

    return on_clients(clusters, show, is_apart=with_name)()


def _accounts(options: "OptionValues") -> "list[str] | None":
    """Return the accounts to show, None for all."""
    return split_list(options["accounts"]) if "accounts" in options else None


def _users(options: "OptionValues") -> "list[str] | None":
    """Return the users to show, None for all: those named or numbered, or the one who asks."""
    if "users" in options:
        words = split_list(options["users"])
        return [user_name(uid_of(word)) if word.isdecimal() else word for word in words]
    if "all" in options:
        return None
    return [user_name(os.getuid())]


def _say_request(users: "list[str] | None", accounts: "list[str] | None") -> None:
    """Print what -v prints first."""
    for kind, names in (("Users", users), ("Accounts", accounts)):
        say(f"{kind} requested:")
        for name in names if names is not None else ["all"]:
            say(f"\t: {name}")


def _chosen(
    rows: "list[Row]",
    options: "OptionValues",
    users: "list[str] | None",
    accounts: "list[str] | None",
) -> "list[Row]":
    """Return the associations to show, each with `depth`, the number of shown ones above it."""
    depths: dict[int, int] = {}
    chosen = []
    for row in rows:
        if accounts is not None and row["account"] not in accounts:
            continue
        if row["user"] and users is not None and row["user"] not in users:
            continue
        if "Users" in options and not row["user"]:
            continue
        row["depth"] = depths[row["assoc_id"]] = depths.get(row["parent_id"], -1) + 1
        chosen.append(row)
    return chosen


def _print(rows: "list[Row]", reply: "Row", options: "OptionValues", *, is_fair_tree: bool) -> int:
    default = FAIR_TREE_FORMAT
    if "long" in options:
        default = FAIR_TREE_LONG_FORMAT if is_fair_tree else CLASSIC_LONG_FORMAT
    if "partition" in options:
        default = default.replace("User,", "User,Partition,")
    chosen = choose_fields("sshare", options.get("format") or default, FIELDS, takes_all=False)
    layout = TableLayout(chosen, options)
    out = layout.header() if "noheader" not in options else b""
    cells = [[shown(_cell(name, row, reply)) for name, _, _ in chosen] for row in rows]
    write_bytes(out + layout.rows(cells))
    return 0


def _cell(name: str, row: "Row", reply: "Row") -> str:
    """Return one field of an association; the root has no shares and no part of the usage."""
    counted, is_root = row["counted"], not row["parent_id"]
    fields = {"Account": "account", "User": "user", "Partition": "partition", "ID": "assoc_id"}
    if name in fields:
        return (" " * row["depth"] if name == "Account" else "") + str(row[fields[name]])
    if name == "Cluster":
        return str(reply["cluster_name"])
    if name == "RawShares":
        shares = "parent" if row["shares"] < 0 else str(row["shares"])
        return "" if is_root else shares
    if name == "RawUsage":
        return str(int(counted["usage_s"]))
    if name == "GrpTRESMins":
        limits = row["limits"].get("grp_tres_mins", {})
        return ",".join(f"{tres}={limits[tres]}" for tres in reply["tres"] if tres in limits)
    if name == "GrpTRESRaw":
        return _amounts(reply["tres"], {key: s / 60 for key, s in counted["tres_s"].items()})
    if name == "TRESRunMins":
        return _amounts(reply["tres"], counted["run_min"])
    return _figure(name, row, is_root=is_root)


def _figure(name: str, row: "Row", *, is_root: bool) -> str:
    """Return a field that is a fraction; empty where there is none."""
    if name == "NormShares":
        return f"{row['norm_shares']:.6f}"
    if name == "NormUsage":
        return "" if is_root else f"{row['norm_usage']:.6f}"
    if name == "EffectvUsage":
        return f"{row['effective_usage']:.6f}"
    figure = row["factor" if name == "FairShare" else "level"]
    return f"{figure:.6f}" if figure >= 0 else ""


def _amounts(names: "list[str]", amounts: "dict[str, float]") -> str:
    return ",".join(f"{name}={int(amounts.get(name, 0))}" for name in names)
