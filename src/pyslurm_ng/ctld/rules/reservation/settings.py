"""Settings of a reservation as typed, to the fields of its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyslurm_ng.base import units
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import DAY_US, INFINITE, MINUTE_US
from pyslurm_ng.base.units import whole_number
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.reservation.devices import DeviceWish
from pyslurm_ng.ctld.rules.reservation.times import PERIOD_US
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.node import is_indexed
from pyslurm_ng.model.reservation import REPEATS, SHOWN_FLAGS, Reservation
from pyslurm_ng.sched.request import features

_UNLIMITED_US = 365 * DAY_US
_PURGE_S = 300
_ALIASES = {
    "STATIC_ALLOC": "STATIC",
    "LICENSE_ONLY": "ANY_NODES",
    "NO_HOLD_JOBS_AFTER": "NO_HOLD_JOBS_AFTER_END",
}
# Made by us, not by the user.
_DERIVED = ("SPEC_NODES", "ALL_NODES")
REPLACES = ("REPLACE", "REPLACE_DOWN")
# What becomes of nodes that are busy or down.
_NODE_FATES = ("MAINT", "STATIC", *REPLACES)
_NO_SUCH = {
    "users": Errno.ESLURM_USER_ID_MISSING,
    "groups": Errno.ESLURM_USER_ID_MISSING,
    "accounts": Errno.ESLURM_INVALID_ACCOUNT,
    "qos": Errno.ESLURM_INVALID_QOS,
    "allowed_partitions": Errno.ESLURM_INVALID_PARTITION_NAME,
}
_LISTS = ("users", "accounts", "groups", "qos", "allowedpartitions")


class Draft:
    """A reservation in the making: its record's fields, and what is asked of its nodes."""

    def __init__(self, cluster: Cluster, current: Reservation, context: Context) -> None:
        self.cluster = cluster
        self.current = current
        self.context = context
        self.fields: dict[str, Any] = {}
        self.nodes = ""  # a list or ALL
        self.sign = ""  # of that list: + adds, - takes away
        self.node_count = 0
        self.wants_no_nodes = False  # NodeCnt=0: for licences alone
        self.core_counts: tuple[int, ...] = ()  # of each node, or the total
        self.counts_cpus = False  # these are CPUs, not cores
        self.devices: tuple[DeviceWish, ...] = ()
        self.devices_are_of_each_node = False
        self.duration_us = 0
        self.skips = False

    @property
    def wants_cores(self) -> bool:
        """Whether a number of cores is asked for."""
        return bool(self.core_counts)

    @property
    def wants_nodes(self) -> bool:
        """Whether nodes, or a part of some, are asked for."""
        return bool(self.nodes or self.node_count or self.wants_cores or self.devices)

    def get(self, name: str) -> Any:
        """Return a field as it will be."""
        return self.fields.get(name, getattr(self.current, name))


Setter = Callable[[Draft, str, str], "Reject | None"]


def read_settings(draft: Draft, settings: dict[str, str]) -> Reject | None:
    """Take all settings into a draft, or say which one cannot be."""
    for key, value in settings.items():
        sign = key[-1] if key[-1:] in ("+", "-") else ""
        name = key.lower().rstrip("+-")
        setter = _SETTERS.get(name)
        if setter is None or (sign and name not in _SIGNED):
            return Reject(Errno.ESLURM_NOT_SUPPORTED, key)
        refusal = setter(draft, value, sign)
        if refusal is not None:
            return refusal
    return _set_times(draft)


# Who ------------------------------------------------------------------------------------------


def _names(field: str) -> Setter:
    def set_names(draft: Draft, value: str, sign: str) -> Reject | None:
        words = list(dict.fromkeys(word for word in value.split(",") if word))
        if field == "accounts":
            words = [word.lower() for word in words]
        old_names = list(draft.get(field))
        is_new = not draft.current.end_us
        denied = [word for word in words if word.startswith("-")]
        if sign == "-" and is_new:
            words = [f"-{word.lstrip('-')}" for word in words]
        elif sign == "+":
            words = old_names + [word for word in words if word not in old_names]
        elif sign == "-":
            words = [word for word in old_names if word not in words]
        elif (
            denied and len(denied) == len(words) and old_names and not old_names[0].startswith("-")
        ):
            # As in Slurm: -name takes a name off the list of those who may use it.
            names = {word.lstrip("-") for word in denied}
            if names.isdisjoint(old_names):
                return Reject(
                    _NO_SUCH[field], f"{field}: {value} is not among {','.join(old_names)}"
                )
            words = [word for word in old_names if word not in names]
        denied = [word for word in words if word.startswith("-")]
        if denied and len(denied) != len(words):
            return Reject(_NO_SUCH[field], f"{field}: either all names or none begin with -")
        refusal = _unknown(draft.cluster, field, [word.lstrip("-") for word in words])
        draft.fields[field] = tuple(words)
        if field == "groups":
            draft.fields["group_users"] = None
        return refusal

    return set_names


def _unknown(cluster: Cluster, field: str, names: list[str]) -> Reject | None:
    """Refuse names that accounting would know if they existed."""
    if field == "accounts" and cluster.assocs:
        known = {assoc.account for assoc in cluster.assocs.values()}
        if any(name not in known for name in names):
            return Reject(Errno.ESLURM_INVALID_ACCOUNT)
    if field == "qos" and cluster.qos and any(name not in cluster.qos for name in names):
        return Reject(Errno.ESLURM_INVALID_QOS)
    if field == "allowed_partitions" and any(name not in cluster.partitions for name in names):
        return Reject(Errno.ESLURM_INVALID_PARTITION_NAME)
    return None


# When -----------------------------------------------------------------------------------------


def _moment(field: str) -> Setter:
    def set_moment(draft: Draft, value: str, sign: str) -> Reject | None:
        moment_us = whole_number(value)
        if moment_us is None:
            return Reject(Errno.ESLURM_INVALID_TIME_VALUE)
        draft.fields[field] = moment_us
        return None

    return set_moment


def _duration(draft: Draft, value: str, sign: str) -> Reject | None:
    """Take a length in whole minutes, as Slurm does: seconds begin one more."""
    try:
        minutes = units.parse_time_limit_min(value)
    except units.UnitError:
        return Reject(Errno.ESLURM_INVALID_TIME_VALUE)
    length_us = _UNLIMITED_US if minutes == INFINITE else minutes * MINUTE_US
    now_us = draft.current.end_us - draft.current.start_us
    draft.duration_us = {"": length_us, "+": now_us + length_us, "-": now_us - length_us}[sign]
    return None if draft.duration_us > 0 else Reject(Errno.ESLURM_INVALID_TIME_VALUE)


def _max_start_delay(draft: Draft, value: str, sign: str) -> Reject | None:
    """Take a time in whole minutes; nothing takes it away."""
    try:
        seconds = units.parse_time_limit_s(value) if value else 0
    except units.UnitError:
        return Reject(Errno.ESLURM_INVALID_TIME_VALUE)
    if seconds == INFINITE:
        return Reject(Errno.ESLURM_INVALID_TIME_VALUE)
    draft.fields["max_start_delay_s"] = -(-seconds // 60) * 60
    return None


def _set_times(draft: Draft) -> Reject | None:
    """Work out the end from a duration, or keep the length when only the start moves."""
    fields, current = draft.fields, draft.current
    if draft.duration_us:
        fields["end_us"] = draft.get("start_us") + draft.duration_us
    elif "start_us" in fields and "end_us" not in fields and current.end_us:
        fields["end_us"] = fields["start_us"] + current.end_us - current.start_us
    start_us, end_us = draft.get("start_us"), draft.get("end_us")
    if not start_us or end_us <= start_us:
        return Reject(Errno.ESLURM_INVALID_TIME_VALUE)
    for flag in draft.get("flags"):
        if flag in PERIOD_US and end_us - start_us > PERIOD_US[flag]:
            return Reject(
                Errno.ESLURM_INVALID_TIME_VALUE, f"a {flag} reservation would overlap itself"
            )
    return None


# How ------------------------------------------------------------------------------------------


def _flags(draft: Draft, value: str, sign: str) -> Reject | None:
    old_flags = draft.get("flags")
    words = []
    for text in value.split(","):
        word, _, time_text = text.strip().upper().partition("=")
        word = _ALIASES.get(word, word)
        if not word or word in _DERIVED:
            continue
        if word not in SHOWN_FLAGS:
            return Reject(Errno.ESLURM_NOT_SUPPORTED, f"Error parsing flags {sign}{value}.")
        if word == "PURGE_COMP" and sign != "-":
            try:
                seconds = units.parse_time_limit_s(time_text) if time_text else _PURGE_S
            except units.UnitError:
                return Reject(Errno.ESLURM_INVALID_TIME_VALUE)
            draft.fields["purge_s"] = seconds
        words.append(word)
    kept = [flag for flag in old_flags if flag in _DERIVED]
    if sign == "+" or (not sign and draft.current.end_us):
        # As in Slurm an update without a sign adds flags, too.
        words = [*old_flags, *words]
    elif sign == "-":
        words = [flag for flag in old_flags if flag not in words]
    chosen = {*kept, *words}
    if sum(flag in chosen for flag in REPEATS) > 1:
        return Reject(Errno.ESLURM_NOT_SUPPORTED, f"only one of {', '.join(REPEATS)} can be given")
    if "TIME_FLOAT" in chosen and chosen & {*REPEATS, "PURGE_COMP"}:
        detail = "TIME_FLOAT: a reservation that never begins neither repeats nor is completed"
        return Reject(Errno.ESLURM_NOT_SUPPORTED, detail)
    refusal = _unlike(draft, chosen, set(words))
    if refusal is not None:
        return refusal
    draft.fields["flags"] = tuple(flag for flag in SHOWN_FLAGS if flag in chosen)
    if "PURGE_COMP" not in chosen:
        draft.fields["purge_s"] = draft.fields["idle_since_us"] = 0
    return None


def _unlike(draft: Draft, chosen: set[str], words: set[str]) -> Reject | None:
    """Refuse an update to flags that want different nodes in the same case.

    As in Slurm a new reservation may have two of them. Nodes that are named are never replaced.
    """
    if not draft.current.end_us:
        return None
    fates = [flag for flag in _NODE_FATES if flag in chosen]
    if len(fates) > 1 and words.intersection(fates):
        detail = f"Flags: only one of {', '.join(_NODE_FATES)} can be given"
        return Reject(Errno.ESLURM_NOT_SUPPORTED, detail)
    if "SPEC_NODES" in chosen and not words.isdisjoint(REPLACES):
        return Reject(Errno.ESLURM_NOT_SUPPORTED, "Flags: nodes that are named are not replaced")
    return None


def _partition(draft: Draft, value: str, sign: str) -> Reject | None:
    if value and value not in draft.cluster.partitions:
        return Reject(Errno.ESLURM_INVALID_PARTITION_NAME)
    draft.fields["partition"] = value
    return None


def _features(draft: Draft, value: str, sign: str) -> Reject | None:
    if value:
        try:
            ways = features.ways(value)
        except features.FeatureError:
            return Reject(Errno.ESLURM_INVALID_FEATURE)
        if len(ways) > 1 and any(way.counts for way in ways):
            detail = "Features of reservations: counts and alternatives exclude each other"
            return Reject(Errno.ESLURM_INVALID_FEATURE, detail)
        known = {
            name
            for node in draft.cluster.living_nodes()
            for name in (*node.features, *node.features_active)
        }
        if any(name not in known for name in features.names(value)):
            return Reject(Errno.ESLURM_INVALID_FEATURE)
    draft.fields["features"] = value
    return None


def _nodes(draft: Draft, value: str, sign: str) -> Reject | None:
    draft.nodes, draft.sign = value, sign
    return None


def _node_count(draft: Draft, value: str, sign: str) -> Reject | None:
    """Take a count, or several that are added up."""
    try:
        draft.node_count = sum(units.parse_count(word) for word in value.split(","))
    except units.UnitError:
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
    draft.wants_no_nodes = not draft.node_count
    return None


def _tres(draft: Draft, value: str, sign: str) -> Reject | None:
    """Take `node=2,cpu=4,2,license/matlab=1,gres/gpu=2,bb/x=1GB`; CPUs may be of each node."""
    licenses: list[str] = []
    buffers: list[str] = []
    for part in _tres_parts(value):
        name, _, count = part.partition("=")
        kind, _, rest = name.partition("/")
        refusal: Reject | None = None
        if name.lower() == "node":
            refusal = _node_count(draft, count, sign)
        elif name.lower() == "cpu":
            if _core_count(draft, count, sign) is not None:
                refusal = Reject(Errno.ESLURM_INVALID_TRES, f"TRES={value}: {part}")
            draft.counts_cpus = True
        elif kind.lower() == "license" and rest:
            licenses.append(f"{rest}:{count}")
        elif kind.lower() == "bb":
            buffers.append(f"{rest}:{count}" if rest else count)
        else:
            refusal = _devices(draft, f"TRES={value}", part)
        if refusal is not None:
            return refusal
    if buffers:
        draft.fields["burst_buffer"] = ",".join(buffers)
    return _licenses(draft, ",".join(licenses), sign) if licenses else None


def _tres_parts(value: str) -> list[str]:
    """Return what commas part; one before a number belongs to the CPUs of several nodes."""
    parts: list[list[str]] = []
    for word in value.split(","):
        if word.isdecimal() and parts and parts[-1][0].lower().startswith("cpu="):
            parts[-1].append(word)
        else:
            parts.append([word])
    return [",".join(words) for words in parts]


def _tres_per_node(draft: Draft, value: str, sign: str) -> Reject | None:
    draft.devices_are_of_each_node = True
    for part in value.split(","):
        refusal = _devices(draft, f"TRESPerNode={value}", part)
        if refusal is not None:
            return refusal
    return None


def _devices(draft: Draft, setting: str, text: str) -> Reject | None:
    """Take `gres/gpu:a100=2` or `gres/gpu:2`, of what some node has single devices of."""
    name, equals, count = text.partition("=")
    if not equals:
        name, _, count = text.rpartition(":")
    kind, _, resource = name.partition("/")
    resource, _, of_type = resource.partition(":")
    if kind.lower() != "gres" or not resource or not whole_number(count):
        detail = (
            f"{setting}: {text}: allowed are cpu=N, node=N, license/NAME=N and gres/NAME[:TYPE]=N"
        )
        return Reject(Errno.ESLURM_INVALID_TRES, detail)
    wish = DeviceWish(resource, of_type, int(count))
    if not any(
        is_indexed(gres) and wish.is_met_by(gres)
        for node in draft.cluster.living_nodes()
        for gres in node.spec.gres
    ):
        detail = f"{setting}: no node has devices {name}"
        return Reject(Errno.ESLURM_INVALID_TRES, detail)
    draft.devices += (wish,)
    return None


def _licenses(draft: Draft, value: str, sign: str) -> Reject | None:
    """Keep licences; that there are enough is looked at when all times are known."""
    try:
        counts = license_counts(value)
    except ValueError:
        return Reject(Errno.ESLURM_INVALID_LICENSES)
    known = draft.cluster.licenses
    if any(count < 0 or count > known.get(name, 0) for name, count in counts):
        return Reject(Errno.ESLURM_INVALID_LICENSES)
    draft.fields["licenses"] = ",".join(f"{name}:{count}" for name, count in counts)
    return None


def _core_count(draft: Draft, value: str, sign: str) -> Reject | None:
    words = value.split(",")
    if not all(map(whole_number, words)):
        return Reject(Errno.ESLURM_INVALID_CORE_CNT)
    draft.core_counts, draft.counts_cpus = tuple(int(word) for word in words), False
    return None


def _text(field: str) -> Setter:
    def set_text(draft: Draft, value: str, sign: str) -> Reject | None:
        draft.fields[field] = value
        return None

    return set_text


def _skip(draft: Draft, value: str, sign: str) -> Reject | None:
    draft.skips = True
    return None


_SETTERS: dict[str, Setter] = {
    "accounts": _names("accounts"),
    "allowedpartitions": _names("allowed_partitions"),
    "burstbuffer": _text("burst_buffer"),
    "comment": _text("comment"),
    "corecnt": _core_count,
    "duration": _duration,
    "endtime": _moment("end_us"),
    "features": _features,
    "flags": _flags,
    "groups": _names("groups"),
    "licenses": _licenses,
    "maxstartdelay": _max_start_delay,
    "nodecnt": _node_count,
    "nodes": _nodes,
    "partitionname": _partition,
    "qos": _names("qos"),
    "skip": _skip,
    "starttime": _moment("start_us"),
    "tres": _tres,
    "trespernode": _tres_per_node,
    "users": _names("users"),
}
_SIGNED = (*_LISTS, "duration", "flags", "nodes")
