"""How commands that show or control read their command line."""

import os
import sys

from pyslurm_ng.cli.command import fail, say, take_document, version_line
from pyslurm_ng.cli.option_words import UsageError, split_words, suggestions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyslurm_ng.cli.option_words import Row
    from pyslurm_ng.wire.client import Client


class OptionValues(dict[str, str]):
    """Options by long name; the last one counts, and a switch that is set has the value "".

    pairs: (long name, value) in order, for options that count or add up.
    """

    pairs: "tuple[tuple[str, str], ...]" = ()

    def times(self, name: str) -> int:
        """Return how often an option was on the command line."""
        return sum(1 for option, _ in self.pairs if option == name)


class Program:
    """A command's name, its options, and the texts that it prints without asking any daemon.

    Args:
        options: rows of long name, letters, and whether it takes an argument. --help shows the
            first letter.
        usage: what --usage prints.
        same: names that mean another option.
        environment: (variable, long name), read before the command line.
        refused: options that are known, but not implemented.
        no_effect: options that are accepted, so that scripts go on, and named as without effect.
        opposites: pairs of options; only the last one given counts.
        tells: options that print a text and end the command.
        operands: the words after the options, as --help shows them.
        heading: the first line of --help where Slurm's is not "Usage: NAME [OPTIONS]".
        hint: whether --help is named after options that cannot be read; sacct does not.
    """

    def __init__(
        self,
        name: str,
        options: "tuple[Row, ...]",
        usage: str,
        *,
        same: "Mapping[str, str] | None" = None,
        environment: "tuple[tuple[str, str], ...]" = (),
        refused: "tuple[str, ...]" = (),
        no_effect: "tuple[str, ...]" = (),
        opposites: "tuple[tuple[str, str], ...]" = (),
        tells: "Mapping[str, Callable[[], str]] | None" = None,
        operands: str = "",
        heading: str = "",
        hint: bool = True,
    ) -> None:
        self.name = name
        self._hint = f'\nTry "{name} --help" for more information' if hint else ""
        self._heading = heading or f"Usage: {name} [OPTIONS] {operands}".rstrip()
        self.by_name = {row[0]: row for row in options}
        self.by_letter = {letter: row for row in options for letter in row[1]}
        self._usage = usage
        self.same = same or {}
        self._environment = environment
        self.refused = refused
        self._no_effect = no_effect
        self._opposites = opposites
        self._tells: dict[str, Callable[[], str]] = {
            "version": version_line,
            "usage": lambda: usage,
            "help": self.help_text,
            **(tells or {}),
        }

    def read(self, argv: "list[str]") -> "tuple[OptionValues, list[str]]":
        """Return the options and the operands.

        Exits with a line on stderr for options that cannot be read, and with 0 after --help,
        --version and other options that ask for a text.
        """
        try:
            pairs, operands = split_words(argv, self.by_name, self.by_letter, mixed=True)
        except UsageError as problem:
            fail(f"{self.name}: {problem}{self._hint}")
        options = OptionValues()
        for variable, name in self._environment:
            if variable in os.environ:
                options[name] = os.environ[variable]
        options.pairs = tuple((self.same.get(name, name), value or "") for name, value in pairs)
        for name, value in options.pairs:
            self._take(options, name, value)
        self._choose_document(options)
        return options, operands

    def _choose_document(self, options: OptionValues) -> None:
        """Treat --yaml as --json written as YAML, in the version that the value names."""
        version = ""
        for name in ("json", "yaml"):
            if options.get(name):
                version = self._version(name, options[name])
        take_document(options, version)

    def _version(self, name: str, value: str) -> str:
        """Return the version of documents that an option names, "" for the newest."""
        from pyslurm_ng.data_parser.envelope import NEWEST, VERSIONS
        from pyslurm_ng.data_parser.versions import version_named

        if value == "list":
            lines = "".join(f"data_parser/{version}\n" for version in VERSIONS)
            _end(f"Possible data_parser plugins:\n{lines}")
        version = version_named(value)
        if not version:
            fail(
                f"{self.name}: error: --{name}={value}: no such data_parser; "
                f"{VERSIONS[0]} to {NEWEST} are allowed"
            )
        return "" if version == NEWEST else version

    def _take(self, options: OptionValues, name: str, value: str) -> None:
        if name in self._tells:
            _end(self._tells[name]() + "\n")
        if name == "autocomplete":
            _end(suggestions(value, self.by_name))
        if name in self.refused:
            fail(f"{self.name}: error: --{name} is not supported yet")
        if name in self._no_effect:
            say(f"{self.name}: --{name} has no effect in pyslurm-ng yet")
        for option, other in self._opposites:
            if name == option:
                options.pop(other, None)
            elif name == other:
                options.pop(option, None)
        options[name] = value

    def help_text(self) -> str:
        """Return what --help prints."""
        return f"{self._heading}\n{self.option_list()}"

    def option_list(self) -> str:
        """Return the options that work, a line for each, with their purposes."""
        from pyslurm_ng.cli.option_lists import option_list

        return option_list(self.name, self.by_name.values(), self.same, self.refused)

    def no_operands(self, operands: "list[str]", *, with_usage: bool = False) -> None:
        """Exit with 1 if operands are given to a command that takes none."""
        if not operands:
            return
        say(f"{self.name}: error: Unrecognized option: {operands[0]}")
        if with_usage:
            print(self._usage)
        raise SystemExit(1)

    def clusters(self, options: OptionValues, conf: "dict[str, str]") -> "list[dict[str, str]]":
        """Return how to reach each cluster of -M, of SLURM_CLUSTERS or of the federation.

        With the federation's, `options` have the names of its clusters as if -M had named them.
        """
        if "clusters" not in options:
            if "federation" not in self.by_name or not shows_federation(options, conf):
                return [conf]
            from pyslurm_ng.cli.clusters import confs_of_federation

            confs = confs_of_federation(self.name, conf, tells_all="federation" in options)
            if len(confs) > 1 or (confs and "federation" in options):
                options["clusters"] = ",".join(member["ClusterName"] for member in confs)
            return confs or [conf]
        from pyslurm_ng.cli.clusters import confs_of

        return confs_of(self.name, options["clusters"], conf, self._cluster_origin(options))

    def cluster(self, options: OptionValues, conf: "dict[str, str]") -> "dict[str, str]":
        """Return how to reach the cluster of -M, for commands that ask one; else this one."""
        if "clusters" not in options:
            return conf
        from pyslurm_ng.cli.clusters import only_conf

        return only_conf(self.name, options["clusters"], conf, self._cluster_origin(options))

    def _cluster_origin(self, options: OptionValues) -> str:
        return "--cluster" if options.times("clusters") else "SLURM_CLUSTERS"


def on_clients(
    confs: "list[dict[str, str]]", show: "Callable[[Client, str], int]", *, is_apart: bool = False
) -> "Callable[[], int]":
    """Return what asks each cluster, by a connection that is kept, and its name.

    Args:
        is_apart: whether an empty line is between two clusters.
    """
    from pyslurm_ng.cli.command import connect

    if len(confs) == 1:
        client, name = connect(confs[0]), confs[0].get("ClusterName", "cluster")
        return lambda: show(client, name)
    from pyslurm_ng.cli.clusters import on_each

    clients = {conf["ClusterName"]: connect(conf) for conf in confs}

    def show_one(conf: "dict[str, str]") -> int:
        return show(clients[conf["ClusterName"]], conf["ClusterName"])

    return lambda: on_each(confs, show_one, is_apart=is_apart)


def shows_federation(options: "Mapping[str, str]", conf: "Mapping[str, str]") -> bool:
    """Return whether a command shows all clusters of the federation, if this one is in any.

    FederationParameters=fed_display lets every command do so, until --local or -M says otherwise.
    """
    if {"clusters", "local"} & options.keys():
        return False
    if {"federation", "sibling"} & options.keys():
        return True
    parameters = conf.get("FederationParameters", "").lower().split(",")
    return "fed_display" in parameters


def names_clusters(options: "Mapping[str, str]") -> bool:
    """Return whether a listing is headed by the name of its cluster."""
    return "clusters" in options and not {"noheader", "json"} & options.keys()


def repeat(command: str, options: OptionValues, show: "Callable[[], int]") -> int:
    """Show once, or with --iterate repeatedly; the time stands above each heading."""
    interval = options.get("iterate")
    if interval is None:
        return show()
    if not interval.isdecimal() or len(interval) > 9 or not int(interval):
        lead = "" if command == "squeue" else "Error: invalid entry for "
        end = "\n" if command == "squeue" else ""
        fail(f"{command}: error: {lead}--iterate={interval}{end}")
    from time import sleep, time

    from pyslurm_ng.cli.listing.list_format import date_line

    while True:
        if "noheader" not in options:
            print(date_line(int(time() * 1e6)))
        show()
        print(flush=True)
        sleep(int(interval))


def _end(text: str) -> None:
    sys.stdout.write(text)
    raise SystemExit(0)
