"""The words of a sacctmgr command line: which keys an entity takes, and their short forms.

A key matches when it is a prefix of a name or alias, case ignored, and as long as Slurm wants it;
an exact match wins, then the first in the table's order, as the names were chosen for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyslurm_ng.dbd.limits import ASSOCIATION_LIMITS, QOS_LIMITS, SINGLE_TRES
from pyslurm_ng.wire.dbd_messages import Assignment

_LIMIT_KEYS: dict[str, tuple[str, ...]] = {spec.name: spec.aliases for spec in ASSOCIATION_LIMITS}
_QOS_LIMIT_KEYS: dict[str, tuple[str, ...]] = {spec.name: spec.aliases for spec in QOS_LIMITS}
_OLD_LIMIT_KEYS: dict[str, tuple[str, ...]] = {
    name: (name.removesuffix("PerJob"),)
    for name, (limit, _) in SINGLE_TRES.items()
    if limit in _LIMIT_KEYS
}
_OLD_QOS_KEYS: dict[str, tuple[str, ...]] = {
    name: (name.removesuffix("PerJob"), name.replace("PerUser", "PU")) for name in SINGLE_TRES
}

_ASSOCIATION_SETTINGS: dict[str, tuple[str, ...]] = {
    "Fairshare": ("Shares", "RawShares"),
    "DefaultQOS": ("DefQOS",),
    "QosLevel": ("QOS",),
    "Priority": (),
    "Comment": (),
    **_LIMIT_KEYS,
    **_OLD_LIMIT_KEYS,
}

_WHERE: dict[str, dict[str, tuple[str, ...]]] = {
    "account": {
        "Names": ("Accounts", "Acct"),
        "Clusters": (),
        "Description": (),
        "Flags": (),
        "Organization": (),
        "Parents": (),
        "Users": (),
        "QosLevel": ("QOS",),
        "DefaultQOS": (),
    },
    "association": {
        "Accounts": ("Acct", "Names"),
        "Clusters": (),
        "Users": (),
        "Partitions": (),
        "IDs": ("AssociationIDs",),
        "Parents": (),
        "QosLevel": ("QOS",),
        "DefaultQOS": (),
    },
    "user": {
        "Names": ("Users",),
        "Accounts": ("Acct",),
        "Clusters": (),
        "Partitions": (),
        "AdminLevel": (),
        "DefaultAccount": (),
        "QosLevel": ("QOS",),
        "DefaultQOS": (),
        "DefaultWCKey": ("DefWCKey",),
        "WCKeys": (),
    },
    "cluster": {
        "Names": ("Clusters",),
        "Classification": (),
        "Federation": ("Federations",),
        "Flags": (),
        "RPCVersions": (),
    },
    "qos": {"Names": ("QOSLevel",), "IDs": (), "Descriptions": (), "PreemptMode": ()},
    "coordinator": {"Names": ("Users",), "Accounts": ("Acct",)},
    "tres": {"Types": (), "Names": (), "IDs": ()},
    "transaction": {
        "Accounts": ("Acct",),
        "Actions": (),
        "Actors": (),
        "Clusters": (),
        "Start": (),
        "End": (),
        "Users": (),
        "IDs": (),
    },
    "event": {
        "All_Clusters": (),
        "All_Time": (),
        "Clusters": (),
        "Start": (),
        "End": (),
        "Events": (),
        "Nodes": (),
        "Reason": (),
        "States": (),
        "Users": (),
        "CondFlags": (),
        "MaxCPUs": (),
        "MinCPUs": (),
    },
    "federation": {"Names": (), "Clusters": ()},
    "instance": {
        "Clusters": (),
        "Nodes": (),
        "InstanceId": (),
        "InstanceType": (),
        "Extra": (),
        "Start": (),
        "End": (),
    },
    "problem": {"Accounts": (), "Clusters": (), "Users": ()},
    "runawayjobs": {"Clusters": (), "IDs": ()},
    "job": {
        "JobIDs": (),
        "Clusters": (),
        "Start": ("StartTime",),
        "End": ("EndTime",),
        "Users": (),
        "WCKeys": (),
    },
    "reservation": {
        "Names": (),
        "Clusters": (),
        "IDs": (),
        "Nodes": (),
        "Start": (),
        "End": (),
    },
    "wckey": {"Names": ("WCKeys",), "Clusters": (), "Users": (), "IDs": ()},
    "resource": {"Names": (), "Clusters": (), "Servers": ()},
}

_SET: dict[str, dict[str, tuple[str, ...]]] = {
    "account": {
        "Description": (),
        "Flags": (),
        "Organization": (),
        "Parents": (),
        "RawUsage": (),
        **_ASSOCIATION_SETTINGS,
    },
    "user": {
        "AdminLevel": (),
        "DefaultAccount": ("DefAcct",),
        "DefaultWCKey": ("DefWCKey",),
        "NewName": (),
        "RawUsage": (),
        **_ASSOCIATION_SETTINGS,
    },
    "cluster": {
        "Classification": (),
        "Federation": (),
        "FedState": (),
        "Features": (),
        **_ASSOCIATION_SETTINGS,
    },
    "federation": {"Clusters": (), "Flags": ()},
    "qos": {
        "Description": (),
        "Flags": (),
        "GraceTime": (),
        "Preempt": (),
        "PreemptMode": (),
        "PreemptExemptTime": (),
        "Priority": (),
        "UsageFactor": (),
        "UsageThreshold": (),
        "LimitFactor": (),
        "RawUsage": (),
        **_QOS_LIMIT_KEYS,
        **_OLD_QOS_KEYS,
    },
    "coordinator": {},
    "job": {
        "AdminComment": (),
        "Comment": (),
        "DerivedExitCode": ("DerivedEC",),
        "Extra": (),
        "NewWCKey": (),
        "SystemComment": (),
        "TRES": (),
    },
    "resource": {
        "Count": (),
        "Description": (),
        "Flags": (),
        "LastConsumed": (),
        "PercentAllowed": ("Allowed",),
        "ServerType": (),
        "Type": (),
    },
}

_LINES: dict[str, dict[str, tuple[str, ...]]] = {
    "QOS": _SET["qos"],
    "Cluster": _SET["cluster"],
    "Parent": {},
    "Account": {
        "Description": (),
        "Flags": (),
        "Organization": (),
        **_ASSOCIATION_SETTINGS,
    },
    "User": {
        "AdminLevel": (),
        "Coordinators": (),
        "DefaultAccount": ("DefAcct",),
        "DefaultWCKey": (),
        "Partitions": (),
        "WCKeys": (),
        **_ASSOCIATION_SETTINGS,
    },
}
"""The keys of each kind of line in a flat file."""


_LEAST_LETTERS = {
    "AdminLevel": 2, "DefaultAccount": 8, "DefaultQOS": 8, "DefaultWCKey": 8, "Flags": 2,
    "GraceTime": 3, "LimitFactor": 6, "Parents": 2, "Partitions": 3, "Preempt": 7,
    "PreemptExemptTime": 7, "PreemptMode": 7, "Priority": 2, "RawUsage": 7, "UsageFactor": 6,
    "UsageThreshold": 6,
}  # fmt: skip
"""Of keys of which one letter is not enough, as seen of Slurm 22.05."""


class UnknownWordError(Exception):
    """A key that the entity does not take; `text` is the word as the user wrote it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(slots=True)
class Words:
    """Canonical keys with their values; a key may come more than once.

    `keeps_users`: names of users are as they were written (PreserveCaseUser), not in lower case.
    """

    items: list[tuple[str, str, str]] = field(default_factory=list)
    keeps_users: bool = False

    def values(self, key: str, lower: bool = False) -> list[str]:
        """Return the comma lists given for `key` as one list."""
        values = []
        for name, _, text in self.items:
            if name == key:
                values += [word for word in text.split(",") if word]
        return [word.lower() for word in values] if lower else values

    def users(self, key: str) -> list[str]:
        """Return the comma lists given for `key`, whose values name users."""
        return self.values(key, lower=not self.keeps_users)

    def user(self, name: str) -> str:
        """Return the name of a user as it is stored."""
        return name if self.keeps_users else name.lower()

    def last(self, key: str) -> str | None:
        """Return the last value given for `key`, None if there is none."""
        for name, _, text in reversed(self.items):
            if name == key:
                return text
        return None

    def __contains__(self, key: str) -> bool:
        return any(name == key for name, _, _ in self.items)


_BARE = {
    "association": "IDs", "event": "Events", "job": "", "transaction": "IDs", "tres": "Types",
}  # fmt: skip
"""What a word without a key names, where it is not the entity's name; empty: no such word."""
NO_CONDITIONS = " No conditions given to remove, not executing."


def unknown_condition(word: str) -> list[str]:
    """Return the lines for a word that is no condition of an entity."""
    return [f" Unknown condition: {word}", " Use keyword 'set' to modify value"]


def unknown_condition_text(word: str) -> str:
    """Return the lines of `unknown_condition` as one text."""
    return "\n".join(unknown_condition(word))


def unknown_option(word: str) -> list[str]:
    """Return the lines for a word that is no setting of an entity, or has no such value."""
    return [f" Unknown option: {word}", " Use keyword 'where' to modify condition"]


def need_name(words: Words, entity: str) -> list[str]:
    """Return the lines for an `add` without a name: none was there, or an empty one."""
    if "Names" in words:
        return [" No blank names are allowed when adding."]
    return [f" Need name of {entity} to add."]


def is_key(typed: str, key: str) -> bool:
    """Return whether a key as it was typed may stand for a canonical one."""
    word = typed.lower()
    entities = (*_SET.values(), *_WHERE.values())
    return any(match(word, names) == key for names in entities if key in names)


def read_where(
    entity: str, assignments: Iterable[Assignment], *, keeps_users: bool = False
) -> Words:
    """Return the conditions of a command; words without a key are names.

    Raises:
        UnknownWordError: a key the entity has no condition for.
    """
    names = _WHERE[entity]
    bare = _BARE.get(entity, "Names" if "Names" in names else next(iter(names), ""))
    return _read(names, assignments, bare, keeps_users)


def read_set(
    entity: str,
    assignments: Iterable[Assignment],
    adding: bool = False,
    *,
    keeps_users: bool = False,
) -> Words:
    """Return the settings of `modify`, or with `adding` everything that `add` may be given."""
    names = _SET.get(entity, {})
    if adding:
        names = {**_WHERE[entity], **names}
        return _read(names, assignments, "Names", keeps_users)
    return _read(names, assignments, "", keeps_users)


def read_line(kind: str, assignments: Iterable[Assignment], *, keeps_users: bool = False) -> Words:
    """Return the settings of a line of a flat file."""
    return _read(_LINES[kind], assignments, "", keeps_users)


def _read(
    names: dict[str, tuple[str, ...]],
    assignments: Iterable[Assignment],
    bare: str,
    keeps_users: bool,
) -> Words:
    words = Words(keeps_users=keeps_users)
    for assignment in assignments:
        key = bare if not assignment.key else match(assignment.key, names)
        if not key:
            raise UnknownWordError(
                f"{assignment.key}{assignment.op}{assignment.value}"
                if assignment.key
                else assignment.value
            )
        words.items.append((key, assignment.op, assignment.value))
    return words


def match(word: str, names: dict[str, tuple[str, ...]]) -> str:
    """Return the canonical key `word` stands for, empty if none."""
    lower_word = word.lower()
    for name, aliases in names.items():
        if lower_word in (name.lower(), name.lower().removesuffix("s")):
            return name
        if any(lower_word == alias.lower() for alias in aliases):
            return name
    for name, aliases in names.items():
        if len(word) < _least_letters(name):
            continue
        if any(known_name.lower().startswith(lower_word) for known_name in (name, *aliases)):
            return name
    return ""


def _least_letters(name: str) -> int:
    """Return how much of a key has to be there, so that none is taken for another limit."""
    if name.startswith(("Grp", "Max", "Min")):
        return 7 if "TRES" in name or "CPU" in name else 4
    return _LEAST_LETTERS.get(name, 1)
