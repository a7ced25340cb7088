"""sinfo: partitions and nodes."""

import os

from pyslurm_ng.base.numbers import (
    NODE_DOWN,
    NODE_FLAG_DRAIN,
    NODE_FLAG_DYNAMIC_NORM,
    NODE_FLAG_FAIL,
    NODE_FLAG_NOT_RESPONDING,
    NODE_FLAG_PLANNED,
    NODE_FUTURE,
    SECOND_US,
    SHOW_ALL,
    SHOW_FUTURE,
)
from pyslurm_ng.base.state_names import (
    NODE_FLAG,
    NODE_STATE_ALIASES,
    NODE_STATE_LIST,
    NODE_STATES,
    node_state_words,
    shown_flags,
)
from pyslurm_ng.cli.command import (
    Table,
    fail,
    read_conf,
    say,
    split_list,
    write_bytes,
)
from pyslurm_ng.cli.listing.list_format import Format, date_line, parse_long, parse_short
from pyslurm_ng.cli.listing.node_columns import (
    ALL_LETTERS,
    ALWAYS,
    BY_LETTER,
    FIELDS,
    MERGED,
    OWN,
    PARTITION,
    Context,
    Group,
    is_allocated,
)
from pyslurm_ng.cli.option_words import NONE, OPTIONAL, REQUIRED
from pyslurm_ng.cli.program import Program, names_clusters, on_clients, repeat
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.cli.program import OptionValues
    from pyslurm_ng.wire.client import Client

    Row = dict[str, Any]

OPTIONS = (
    ("all", "a", NONE),
    ("autocomplete", "", REQUIRED),
    ("cluster", "M", REQUIRED),
    ("clusters", "M", REQUIRED),
    ("dead", "d", NONE),
    ("exact", "e", NONE),
    ("federation", "", NONE),
    ("format", "o", REQUIRED),
    ("Format", "O", REQUIRED),
    ("future", "F", NONE),
    ("help", "", NONE),
    ("helpformat", "", NONE),
    ("helpFormat", "", NONE),
    ("helpstate", "", NONE),
    ("hide", "", NONE),
    ("iterate", "i", REQUIRED),
    ("json", "", OPTIONAL),
    ("list-reasons", "R", NONE),
    ("local", "", NONE),
    ("long", "l", NONE),
    ("noconvert", "", NONE),
    ("Node", "N", NONE),
    ("nodes", "n", REQUIRED),
    ("noheader", "h", NONE),
    ("partition", "p", REQUIRED),
    ("reservation", "T", NONE),
    ("responding", "r", NONE),
    ("sort", "S", REQUIRED),
    ("states", "t", REQUIRED),
    ("summarize", "s", NONE),
    ("usage", "", NONE),
    ("verbose", "v", NONE),
    ("version", "V", NONE),
    ("yaml", "", OPTIONAL),
)
_ENVIRONMENT = (
    ("SINFO_ALL", "all"),
    ("SINFO_FORMAT", "format"),
    ("SINFO_FUTURE", "future"),
    ("SINFO_PARTITION", "partition"),
    ("SINFO_SORT", "sort"),
    ("SLURM_CLUSTERS", "clusters"),
    ("SINFO_FEDERATION", "federation"),
    ("SINFO_LOCAL", "local"),
)
USAGE = """\
Usage: sinfo [-abdelNRrsTv] [-i seconds] [-t states] [-p partition] [-n nodes] [-S fields]
             [-o format] [-O Format] [-M clusters] [--json[=data_parser]] [--usage]"""

NORMAL = "%#P %.5a %.10l %.6D %.6t %N"
LONG = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N"
SUMMARY = "%#P %.5a %.10l %.16F %N"
NODE = "%#N %.6D %#.9P %6t"
NODE_LONG = "%#N %.6D %#.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
REASONS = "%20E %9u %19H %N"
REASONS_LONG = "%20E %12U %19H %6t %N"
# Columns that grow do not get narrower than this.
_LEAST_WIDTH = 9

PROGRAM = Program(
    "sinfo",
    OPTIONS,
    USAGE,
    same={"cluster": "clusters"},
    environment=_ENVIRONMENT,
    opposites=(("format", "Format"),),
    tells={
        "helpformat": lambda: "\n".join(
            f"%{letter}: {FIELDS[BY_LETTER[letter]][1]}" for letter in ALL_LETTERS
        ),
        "helpFormat": lambda: " ".join(sorted(FIELDS)),
        "helpstate": lambda: NODE_STATE_LIST.replace(",", "\n"),
    },
)


def main(argv: "list[str]") -> int:
    """Run sinfo; return its exit code."""
    options, operands = PROGRAM.read(argv)
    PROGRAM.no_operands(operands, with_usage=True)
    if "long" in options and any(name in ("format", "Format") for name, _ in options.pairs):
        fail(
            "sinfo: fatal: Options -o(--format) and -l(--long) are mutually exclusive. "
            "Please remove one and retry."
        )
    _choose_partitions(options)
    tests = _state_tests(options.get("states"))
    conf = read_conf("sinfo", "PreemptMode")
    mode = conf.get("PreemptMode", "OFF").upper()
    confs = PROGRAM.clusters(options, conf)
    with_name = names_clusters(options)

    def show(client: "Client", cluster: str) -> int:
        if with_name:
            print(f"CLUSTER: {cluster}")
        return _show(options, client, tests, mode, argv)

    clusters = on_clients(confs, show, is_apart=with_name)
    return repeat("sinfo", options, clusters)


def _choose_partitions(options: "dict[str, str]") -> None:
    """End the command if all partitions and some are asked for, both at one place."""
    named = os.environ.get("SINFO_PARTITION")
    pair = "-a and -p" if "all" in options and "partition" in options else ""
    if "SINFO_ALL" in os.environ:
        pair = "SINFO_ALL and SINFO_PARTITION" if named is not None else ""
    elif pair and options["partition"] == named:
        # The option is stronger than the environment.
        del options["partition"]
        return
    if pair:
        fail(
            f"sinfo: error: Conflicting options, {pair}, specified. Please choose one or the other."
        )


# Which nodes ----------------------------------------------------------------------------------


def _state_tests(text: "str | None") -> "list[list[Callable[[Row], bool]]]":
    """Return what `-t` asks for: a node passes if it passes all tests of one of the lists.

    Without states every node passes; no node has a state of an empty list.
    """
    if text is None:
        return []
    words = split_list(text)
    tests: list[list[Callable[[Row], bool]]] = [] if words else [[lambda node: False]]
    for word in words:
        if word.lower() == "all":
            return []
        parts = word.replace("+", "&").split("&")
        tests.append([_signed_test(part.strip()) for part in parts])
    return tests


def _signed_test(text: str) -> "Callable[[Row], bool]":
    """Return the test of a state; one behind `!` or `~` is the opposite."""
    if text[:1] not in ("!", "~"):
        return _state_test(text)
    opposite = _state_test(text[1:])
    return lambda node: not opposite(node)


def _full_state(word: str) -> str:
    """Return the state that a word means: by name, by its short form, or by its beginning."""
    names = NODE_STATE_LIST.split(",")
    if word in NODE_STATE_ALIASES or word in names or not word:
        return NODE_STATE_ALIASES.get(word, word)
    return next((name for name in names if name.startswith(word)), word)


def _state_test(text: str) -> "Callable[[Row], bool]":
    word = _full_state(text.lower())
    if word == "boot":
        bits = NODE_FLAG["REBOOT_REQUESTED"] | NODE_FLAG["REBOOT_ISSUED"]
        return lambda node: bool(node["flags"] & bits)
    name = word.upper()
    if name in NODE_STATES:
        number = NODE_STATES.index(name)
        return lambda node: bool(node["state"] == number)
    if word in ("drained", "draining"):
        is_busy = word == "draining"
        return lambda node: bool(node["flags"] & NODE_FLAG_DRAIN) and is_allocated(node) == is_busy
    if word in ("fail", "failing"):
        return lambda node: bool(node["flags"] & NODE_FLAG_FAIL)
    bit = NODE_FLAG.get(name)
    if bit is None:
        fail(
            f'sinfo: error: Bad state string: "{text}"\n'
            f"sinfo: error: valid states: {NODE_STATE_LIST}"
        )
    return lambda node: bool(node["flags"] & bit)


def _node_filter(
    options: "dict[str, str]", tests: "list[list[Callable[[Row], bool]]]"
) -> "Callable[[Row], bool]":
    """Return the test that the options make for a node."""
    names: set[str] = set()
    if "nodes" in options:
        from pyslurm_ng.base.hostlist import HostlistError, expand

        try:
            names = set(expand(options["nodes"]))
        except HostlistError as problem:
            fail(
                f"sinfo: error: {problem}\n"
                f"sinfo: error: '{options['nodes']}' invalid entry for --nodes"
            )
    silent = NODE_FLAG_NOT_RESPONDING
    with_reason = "list-reasons" in options
    trouble = NODE_FLAG_DRAIN | NODE_FLAG_FAIL

    def passes(node: "Row") -> bool:
        flags = node["flags"]
        if "nodes" in options and node["name"] not in names:
            return False
        if "dead" in options and not flags & silent:
            return False
        if "responding" in options and flags & silent:
            return False
        if with_reason and not (node["reason"] and (node["state"] == NODE_DOWN or flags & trouble)):
            return False
        return not tests or any(all(test(node) for test in each) for each in tests)

    return passes


# What is shown --------------------------------------------------------------------------------


def _format_of(options: "OptionValues") -> Format:
    is_long = "long" in options
    # The format of the environment is for lists that no option shapes.
    is_shaped = not {"Node", "list-reasons", "summarize"}.isdisjoint(options)
    is_typed = any(name == "format" for name, _ in options.pairs)
    if options.get("Format", "").partition(":")[0].lower() == "all":
        # As in Slurm, which prints all of them and complains about the word, too.
        say(f"sinfo: error: Invalid job format specification: {options['Format']}")
        text = "%all"
    elif "Format" in options:
        chosen = parse_long(options["Format"], FIELDS)
        for word in chosen.bad:
            say(f"sinfo: error: Invalid job format specification: {word}")
        return chosen
    elif "format" in options and (is_typed or not is_shaped):
        text = options["format"]
    elif "summarize" in options:
        text = SUMMARY
    elif "Node" in options:
        text = NODE_LONG if is_long else NODE
    elif "list-reasons" in options:
        text = REASONS_LONG if is_long else REASONS
    else:
        text = LONG if is_long else NORMAL
    chosen = parse_short(text, BY_LETTER, ALL_LETTERS)
    for column in chosen.columns:
        column.key = BY_LETTER[column.key]
    for word in chosen.bad:
        say(f"Invalid node format specification: {word}")
    return chosen


def _show(
    options: "OptionValues",
    client: "Client",
    tests: "list[list[Callable[[Row], bool]]]",
    preempt_mode: str,
    argv: "list[str]",
) -> int:
    try:
        if "reservation" in options:
            from pyslurm_ng.cli.control.reservations import print_table

            shown = argv if "json" in options else None
            if _shows_date(options) and shown is None:
                from time import time

                print(date_line(int(time() * SECOND_US)))
            return print_table(client, with_header="noheader" not in options, json_argv=shown)
        chosen = _format_of(options)
        shows_closed = "all" in options or "partition" in options  # those named are shown anyway
        flags = SHOW_ALL if shows_closed and "hide" not in options else 0
        flags |= SHOW_FUTURE if "future" in options or "states" in options else 0
        reply = client.call("ShowPartitions", {"flags": flags, "with_nodes": True})
    except SlurmError as error:
        say(f"slurm_load_partitions: {error.text}")
        return 1
    context = Context(reply["now_us"], "", preempt_mode, "exact" in options)
    passes = _node_filter(options, tests)
    partitions = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    if "partition" in options:
        named = options["partition"].split(",")
        partitions = [row for row in partitions if row["name"] in named]
    if "json" in options:
        from pyslurm_ng.cli.listing.sinfo_json import print_groups

        nodes = node_rows(reply, reply["more_fields"])
        return print_groups(argv, reply["cluster_name"], partitions, nodes, passes, context)
    nodes = node_rows(reply, _wanted_fields(chosen, options))
    if "future" not in options:
        tests_future = any(word in options.get("states", "").lower() for word in ("fut", "all"))
        nodes = {
            key: row for key, row in nodes.items() if row["state"] != NODE_FUTURE or tests_future
        }
    groups = group_nodes(partitions, nodes, passes, chosen, options, context)
    out = b""
    if "verbose" in options:
        from pyslurm_ng.cli.listing.sinfo_options import block

        out = block(options, chosen, options.times("verbose")).encode(errors="replace")
    if _shows_date(options):
        out += f"{date_line(reply['now_us'])}\n".encode()
    write_bytes(out + _lines(chosen, groups, "noheader" not in options))
    return 0


def _shows_date(options: "OptionValues") -> bool:
    """Return whether a line with the time comes first; --iterate prints its own."""
    is_wordy = "long" in options or "verbose" in options
    return is_wordy and "noheader" not in options and "iterate" not in options


def _wanted_fields(chosen: Format, options: "dict[str, str]") -> "list[str]":
    """Return the fields of nodes that are printed or sorted by."""
    field_names = dict.fromkeys(ALWAYS)
    names = [column.key for column in chosen.columns]
    names += [BY_LETTER[letter] for letter, _ in _sort_letters(options) if letter in BY_LETTER]
    for name in names:
        field = FIELDS[name]
        if field[2] != PARTITION:
            field_names.update(dict.fromkeys(field[3]))
    return list(field_names)


def node_rows(reply: "dict[str, Any]", fields: "list[str]") -> "dict[int, Row]":
    """Return the node records of a reply by node id, with derived flags."""
    rows = {}
    for row in Table(reply["more_fields"], reply["more_records"], fields).dicts():
        row["flags"] = shown_flags(
            row["flags"], is_planned=row["is_planned"], is_blocked=row["is_blocked"]
        )
        row["reason_us"] -= row["reason_us"] % SECOND_US  # shown, and compared, in seconds
        rows[row["node_id"]] = row
    return rows


def group_nodes(
    partitions: "list[Row]",
    nodes: "dict[int, Row]",
    passes: "Callable[[Row], bool]",
    chosen: Format,
    options: "dict[str, str]",
    context: Context,
) -> "list[Group]":
    """Return the lines; nodes that are equal in all shown fields share one."""
    by_node = "Node" in options
    keys = [FIELDS[column.key] for column in chosen.columns]
    of_partition = [field for field in keys if field[2] == PARTITION]
    of_node = [
        name
        for field in keys
        if field[2] == OWN or (field[2] == MERGED and context.exact)
        for name in field[3]
        if name not in ("state", "flags")
    ]
    shows_state = any(field[3] == ("state", "flags") for field in keys)
    groups: dict[Any, Group] = {}
    index_of: dict[int, int] = {}
    with_nodes: set[tuple[Any, ...]] = set()
    for index, partition in enumerate(partitions):
        probe = Group(partition, context)
        part_key = (
            (partition["name"],) if by_node else tuple(field[4](probe) for field in of_partition)
        )
        is_known = False
        for node_id in partition["node_ids"]:
            node = nodes.get(node_id)
            if node is None or not passes(node):
                continue
            is_known = True
            key: Any = (part_key, *[node[name] for name in of_node])
            if shows_state:
                key += node_state_words(node["state"], node["flags"])
            if by_node:
                key += (node_id,)
            group = groups.get(key)
            if group is None:
                group = groups[key] = Group(partition, context)
                index_of[id(group)] = index
            group.add(node)
        if is_known:
            with_nodes.add(part_key)
        elif not by_node and "list-reasons" not in options and part_key not in with_nodes:
            # A partition without nodes has a line unless one says the same already.
            key = (part_key, "empty")
            if part_key and key not in groups:
                groups[key] = Group(partition, context)
                index_of[id(groups[key])] = index
    return _sorted(list(groups.values()), index_of, options)


# Sorting --------------------------------------------------------------------------------------

_UNRANKED = NODE_FLAG_PLANNED | NODE_FLAG_DYNAMIC_NORM


def _state_rank(group: Group) -> int:
    """Return the number by which states sort: the base state, and above it what is beside it.

    So nodes that are reserved, drained or in maintenance stand apart from the others.
    """
    if not group.nodes:
        return -1
    node = group.nodes[0]
    return int(node["state"] | (node["flags"] & ~_UNRANKED))


def _sort_letters(options: "dict[str, str]") -> "list[tuple[str, bool]]":
    """Return (letter, descending) from the most to the least important."""
    text = options.get("sort")
    if text is None:
        text = "N,#P" if "Node" in options else "#P,-t"
    letters = []
    is_ordered = is_falling = False
    for letter in text:
        if letter in "+-":
            is_falling = letter == "-"
        elif letter == "#":
            is_ordered = True
        elif letter == "P" and is_ordered:
            letters.append(("#P", False))  # the order of the configuration has no opposite
        elif letter in BY_LETTER:
            letters.append((letter, is_falling))
        if letter not in "+-#":
            is_ordered = is_falling = False
    return letters


def _sorted(
    groups: "list[Group]", index_of: "dict[int, int]", options: "dict[str, str]"
) -> "list[Group]":
    from pyslurm_ng.base.hostlist import sort_key

    for letter, descending in reversed(_sort_letters(options)):
        if letter == "#P":
            groups.sort(key=lambda group: index_of[id(group)], reverse=descending)
        elif letter in ("t", "T"):
            groups.sort(key=_state_rank, reverse=descending)
        elif letter in ("N", "n"):
            groups.sort(
                key=lambda group: sort_key(group.nodes[0]["name"]) if group.nodes else sort_key(""),
                reverse=descending,
            )
        else:
            show = FIELDS[BY_LETTER[letter]][4]
            groups.sort(key=lambda group: _comparable(show(group)), reverse=descending)
    return groups


def _comparable(cell: "str | int") -> "tuple[int, str]":
    if isinstance(cell, int):
        return cell, ""
    digits = cell.rstrip("+")
    return (int(digits), "") if digits.isdecimal() else (-1, cell)


def _cut_name(name: str, width: int) -> str:
    """Return a partition's name within a width; the star of the default partition stays."""
    is_cut = len(name) > width and name.endswith("*")
    return f"{name[: width - 1]}*" if is_cut else name


def _lines(chosen: Format, groups: "list[Group]", header: bool) -> bytes:
    if not chosen.columns:
        return f"{chosen.head}\n".encode(errors="replace") * (min(1, len(groups)) + header)
    cells = []
    for column in chosen.columns:
        show = FIELDS[column.key][4]
        cells.append([show(group) for group in groups])
        if column.key == "partition" and column.width and not column.fits:
            cells[-1] = [_cut_name(str(name), column.width) for name in cells[-1]]
        if column.fits:
            widest = max((len(str(cell)) for cell in cells[-1]), default=0)
            column.width = max(_LEAST_WIDTH, widest)
    out = b""
    if header:
        out = chosen.header({column.key: FIELDS[column.key][1] for column in chosen.columns})
    return out + chosen.lines(cells) if groups else out
