"""cgroup.conf: how jobs are confined."""

from __future__ import annotations

from dataclasses import dataclass

from pyslurm_ng.conf.lexer import ConfError, ConfErrors, ConfText, parse_text, read_conf
from pyslurm_ng.conf.plain_conf import raise_errors, read_keys
from pyslurm_ng.conf.schema import Table
from pyslurm_ng.conf.tables.keys import CGROUP
from pyslurm_ng.conf.tables.records import CgroupParameters

_TABLE = Table(CGROUP, "cgroup.conf")
_REMOVED = {
    "cgroupautomount": "control groups are mounted by the system",
    "cgroupreleaseagentdir": "",
    "allowedkmemspace": "",
    "alloweddevicesfile": "",
    "constrainkmemspace": "",
    "maxkmempercent": "",
    "minkmemspace": "",
    "taskaffinity": "use TaskPlugin=task/affinity",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupConf(CgroupParameters):
    """A whole cgroup.conf, every key with its default filled in."""

    path: str
    text_hash: str
    given: frozenset[str]
    warnings: tuple[str, ...]


def load_cgroup_conf(path: str) -> CgroupConf:
    """Read and check a cgroup.conf.

    Raises:
        ConfErrors: with every problem found.
    """
    return _build(read_conf(path))


def parse_cgroup_conf(text: str, path: str = "cgroup.conf") -> CgroupConf:
    """Read a cgroup.conf given as a string; a missing file means the same as an empty one.

    Raises:
        ConfErrors: with every problem found.
    """
    return _build(parse_text(text, path))


def _build(text: ConfText) -> CgroupConf:
    values, given_entries, warnings = read_keys(text, _TABLE, "cgroup.conf", _REMOVED)
    raise_errors(text)
    return CgroupConf(
        **values,
        path=text.path,
        text_hash=text.text_hash,
        given=frozenset(given_entries),
        warnings=warnings,
    )


def file_errors(path: str) -> list[ConfError]:
    """Return everything that is wrong with a cgroup.conf."""
    try:
        load_cgroup_conf(path)
    except ConfErrors as problems:
        return problems.errors
    return []
