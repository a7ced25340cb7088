"""acct_gather.conf: how power and traffic of nodes are read, and where profiles of jobs go."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyslurm_ng.base.request_words import series_of
from pyslurm_ng.conf.lexer import ConfError, ConfErrors, ConfText, parse_text, read_conf
from pyslurm_ng.conf.plain_conf import raise_errors, read_keys
from pyslurm_ng.conf.schema import Table
from pyslurm_ng.conf.tables.keys import ACCT_GATHER
from pyslurm_ng.conf.tables.records import AcctGatherParameters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyslurm_ng.conf.lexer import Entry
    from pyslurm_ng.conf.slurm_conf import SlurmConf

FILE = "acct_gather.conf"
DCMI = "DCMI"
"""The word for the power that a BMC tells of the whole node."""
_TABLE = Table(ACCT_GATHER, FILE)
_SENSOR_GROUP = re.compile(r"(?P<label>[A-Za-z][A-Za-z0-9_]{0,31})=(?P<ids>[0-9,]+|DCMI\w*)")
_MOST_SENSORS = 64
_HOST = re.compile(r"(https?://)?[A-Za-z0-9_.\[\]:-]+")
_PASSWORDS = ("EnergyIPMIPassword", "ProfileInfluxDBPass")
_NEEDS = {
    "acct_gather_profile/hdf5": ("ProfileHDF5Dir",),
    "acct_gather_profile/influxdb": ("ProfileInfluxDBHost", "ProfileInfluxDBDatabase"),
    "acct_gather_interconnect/sysfs": ("SysfsInterfaces",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AcctGatherConf(AcctGatherParameters):
    """A whole acct_gather.conf, every key with its default filled in.

    `sensors` has the records of EnergyIPMIPowerSensors by label; () means what DCMI tells.
    """

    path: str
    sensors: tuple[tuple[str, tuple[int, ...]], ...]
    warnings: tuple[str, ...]


def load_acct_gather_conf(path: str) -> AcctGatherConf:
    """Read and check an acct_gather.conf. Raises ConfErrors with every problem found."""
    return _build(read_conf(path))


def parse_acct_gather_conf(text: str, path: str = FILE) -> AcctGatherConf:
    """Read one given as a string; a missing file means an empty one. Raises ConfErrors."""
    return _build(parse_text(text, path))


def beside(conf: SlurmConf) -> AcctGatherConf:
    """Return the acct_gather.conf beside a slurm.conf. Raises ConfErrors."""
    path = path_beside(conf)
    return load_acct_gather_conf(path) if os.path.exists(path) else parse_acct_gather_conf("", path)


def path_beside(conf: SlurmConf) -> str:
    """Return where the acct_gather.conf of a slurm.conf is, or would be."""
    return os.path.join(os.path.dirname(conf.path) or ".", FILE)


def file_errors(path: str, conf: SlurmConf | None) -> list[ConfError]:
    """Return everything that is wrong with an acct_gather.conf, and what slurm.conf needs of it.

    Args:
        path: it may be missing, or not readable for us: then slurmd checks it.
    """
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return []
    try:
        gather = load_acct_gather_conf(path) if os.path.exists(path) else parse_acct_gather_conf("")
    except ConfErrors as problems:
        return problems.errors
    if conf is None:
        return []
    plugins = (conf.acct_gather_profile_type, *conf.acct_gather_interconnect_type)
    return [
        ConfError(path, 0, "", f"{plugin} needs {name}")
        for plugin in plugins
        for name in _NEEDS.get(plugin, ())
        if not getattr(gather, _attribute(name))
    ]


def _attribute(name: str) -> str:
    key = _TABLE.find(name)
    assert key is not None
    return key.attribute


def _build(text: ConfText) -> AcctGatherConf:
    values, entries, warnings = read_keys(text, _TABLE, FILE, {})
    sensors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    for name, entry in entries.items():
        if name == "EnergyIPMIPowerSensors":
            sensors = _sensors(text, entry)
        elif name in ("ProfileHDF5Default", "ProfileInfluxDBDefault"):
            _check_series(text, entry)
        elif name == "ProfileInfluxDBHost" and not _HOST.fullmatch(entry.value):
            text.fail(entry, "is no host, host:port or http address")
        elif name == "ProfileHDF5Dir" and not entry.value.startswith("/"):
            text.fail(entry, f"'{entry.value}' is not an absolute path")
    raise_errors(text)
    return AcctGatherConf(
        **values,
        path=text.path,
        sensors=sensors,
        warnings=(*warnings, *_open_passwords(text.path, entries)),
    )


def _sensors(text: ConfText, entry: Entry) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the groups of `Node=16,19;Socket0=16`; DCMI has no records."""
    groups: dict[str, tuple[int, ...]] = {}
    for word in entry.value.split(";"):
        match = _SENSOR_GROUP.fullmatch(word.strip())
        if match is None:
            text.fail(entry, f"'{word}' is not name=number,number or name={DCMI}")
            return ()
        is_dcmi = match["ids"].startswith(DCMI)
        if is_dcmi and match["label"] != "Node":
            text.fail(entry, f"'{word}': {DCMI} tells the power of Node only")
        ids = () if is_dcmi else tuple(int(number) for number in match["ids"].split(",") if number)
        if len(ids) > _MOST_SENSORS or any(number > 65535 for number in ids):
            text.fail(entry, f"'{word}': at most {_MOST_SENSORS} numbers up to 65535 are allowed")
        groups[match["label"]] = ids
    if "Node" not in groups:
        text.fail(entry, "Node= is missing: its sensors are the node's power")
    return tuple(groups.items())


def _check_series(text: ConfText, entry: Entry) -> None:
    words = entry.value.lower().split(",")
    if len(words) > 1 and {"all", "none"} & set(words):
        text.fail(entry, "All and None stand alone")
        return
    try:
        series_of(entry.value)
    except ValueError as problem:
        allowed = "All, None, Energy, Filesystem, Network, Task"
        text.fail(entry, f"'{problem}' is unknown; allowed: {allowed}")


def _open_passwords(path: str, entries: Iterable[str]) -> list[str]:
    """Return a line if other users can read a password here."""
    names = [name for name in _PASSWORDS if name in entries]
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return []
    if not names or not mode & (stat.S_IRGRP | stat.S_IROTH):
        return []
    return [f"{path}: {names[0]}: others can read it; chmod 600 keeps it to slurmd"]
