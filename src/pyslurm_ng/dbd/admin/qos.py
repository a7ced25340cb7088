"""sacctmgr add, modify and delete qos."""

from __future__ import annotations

import sqlalchemy as sa

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.base.units import UnitError, format_seconds, parse_time_limit_s, whole_number
from pyslurm_ng.dbd import limits, schema
from pyslurm_ng.dbd.admin import conditions, removed_records, usage_reset
from pyslurm_ng.dbd.admin.change import (
    BadNumberError,
    BadValueError,
    Change,
    RefusedError,
    Row,
    require_administrator,
)
from pyslurm_ng.dbd.admin.settings import qos_id_list, signed_words
from pyslurm_ng.dbd.admin.words import NO_CONDITIONS, Words, need_name

FLAGS = (
    "DenyOnLimit",
    "EnforceUsageThreshold",
    "NoReserve",
    "PartitionMaxNodes",
    "PartitionMinNodes",
    "OverPartQOS",
    "PartitionTimeLimit",
    "RequiresReservation",
    "NoDecay",
    "UsageFactorSafe",
    "Relative",
)
"""In Slurm's order, in which they are listed."""
PREEMPT_MODES = ("cluster", "cancel", "gang", "requeue", "suspend", "within")

_SPECS = {spec.name: spec for spec in limits.QOS_LIMITS}
_CLEAR = ("-1", "''", '""', "")


def add(change: Change, words: Words, _: Words) -> None:
    """Create QOS."""
    require_administrator(change, "add QOS")
    names = words.values("Names", lower=True)
    if not names:
        raise RefusedError(*need_name(words, "qos"))
    table = schema.qos
    known = {
        row.name: row.is_deleted
        for row in change.connection.execute(sa.select(table.c.name, table.c.is_deleted))
    }
    new_names = [name for name in names if known.get(name) != 0]
    for name in new_names:
        check_name(name)
    if not new_names:
        raise RefusedError(" Nothing new added.", is_output=True)
    for name in new_names:
        blank: Row = {
            "name": name,
            "description": name,
            "flags": "",
            "preempt": "",
            "preempt_mode": "cluster",
            "priority": 0,
            "grace_time_s": 0,
            "limits": "{}",
        }
        row = blank | _columns(change, blank, words) | change.stamp(is_new=True)
        change.database.upsert(change.connection, table, ("name",), [row])
        change.log("Add QOS", "", name, _info(words))
    change.lines += [" Adding QOS(s)", *(f"  {name}" for name in new_names)]
    description = (words.last("Descriptions") or new_names[-1]).lower()
    change.lines += [" Settings", f"  {'Description':<14s} = {description}", *_shown(words, row)]
    change.changed += len(new_names)


def check_name(name: str) -> None:
    """Refuse a name that no QOS may have; `qos=-name` takes a QOS away."""
    is_plain = name.isprintable() and not any(char in name for char in "/,+'\" ")
    if len(name) > 128 or not is_plain or name[0] == "-":
        raise RefusedError(f" Bad QOS name {name!r}")


def of_new_clusters(change: Change) -> list[int]:
    """Return slurmdbd.conf's DefaultQOS, which is made if it is not there."""
    names = [name for name in change.database.new_cluster_qos.lower().split(",") if name]
    missing = [name for name in names if name not in change.qos_ids()]
    if missing:
        said = list(change.lines)
        add(change, Words([("Names", "=", ",".join(missing))]), Words())
        change.lines = said
    known = change.qos_ids()
    return sorted(known[name] for name in names)


def _shown(words: Words, row: Row) -> list[str]:
    """Return the lines for the settings of a new QOS, in Slurm's order."""
    stored = limits.load(row["limits"])
    pairs = [
        (_SHOWN_AS.get(spec.name, spec.name), limits.show_limit(stored, spec))
        for spec in limits.QOS_LIMITS
    ]
    pairs += [
        (key, f"{stored[key] / 1e6:.4f}")
        for key in ("UsageFactor", "UsageThreshold", "LimitFactor")
        if key in stored
    ]
    for key, value in (
        ("Flags", row["flags"]),
        ("GraceTime", row["grace_time_s"]),
        ("Preempt", _preempt_words(words)),
        ("PreemptMode", str(row["preempt_mode"]).upper()),
        ("PreemptExemptTime", _time(stored.get("PreemptExemptTime"))),
        ("Priority", words.last("Priority")),
    ):
        if key in words:
            pairs.append((key, str(value)))
    cleared = {_SHOWN_AS.get(key, key) for key, _, value in words.items if value == "-1"}
    pairs = [pair for pair in pairs if pair[0] not in cleared]
    pairs += [(key, "NONE") for key in cleared - {"Flags"}]
    return [f"  {name:<24s} = {text}" for name, text in sorted(pairs, key=_place) if text]


def _preempt_words(words: Words) -> str:
    """Return the last setting of what a QOS preempts, with the sign of `+=`."""
    settings = [op.removesuffix("=") + value for key, op, value in words.items if key == "Preempt"]
    return settings[-1] if settings else ""


def _time(seconds: int | None) -> str:
    return "NONE" if seconds is None else format_seconds(seconds)


_SHOWN_AS = {
    "MaxWallDurationPerJob": "MaxWall",
    "MaxTRESMinsPerJob": "MaxTRESMins",
    "MaxTRESRunMinsPerUser": "MaxTRESRUNMinsPerUser",
    "MaxTRESRunMinsPerAccount": "MaxTRESRUNMinsPerAccount",
}
_LAST = ("Min", "MaxTRESMins", "MaxTRESRUN", "MaxWall", "Pr", "Usage", "Limit")
"""Beginnings of names that are listed behind all others, in this order."""


def _place(pair: tuple[str, str]) -> tuple[int, str]:
    """Return where a setting is listed."""
    name = pair[0]
    places = [at for at, start in enumerate(_LAST, 1) if name.startswith(start)]
    return (places[0] if places else 0, name)


def modify(change: Change, where: Words, settings_words: Words) -> None:
    """Change QOS."""
    require_administrator(change, "modify QOS")
    if not settings_words.items:
        raise RefusedError(" You didn't give me anything to set")
    rows = _selected(change, where)
    if usage_reset.is_asked(settings_words):
        usage_reset.reset_qos(change, where, rows)
        return
    if not rows:
        raise RefusedError(" Nothing modified", is_output=True)
    for row in rows:
        _store(change, row, _columns(change, row, settings_words), settings_words)
    change.lines += [" Modified qos...", *(f"  {row['name']}" for row in rows)]
    change.changed += len(rows)


def settle(change: Change, row: Row, words: Words) -> bool:
    """Give a QOS these settings; return whether it had others."""
    values = _columns(change, row, words)
    if values.get("description") == row["description"].lower():
        del values["description"]  # that of `normal` has capitals, which no command can set
    if all(row[name] == value for name, value in values.items()):
        return False
    _store(change, row, values, words)
    return True


def by_name(change: Change, name: str) -> Row:
    """Return the row of a QOS that exists."""
    return _selected(change, Words([("Names", "=", name)]))[0]


def _store(change: Change, row: Row, values: Row, words: Words) -> None:
    if "preempt" in values and _is_loop(change, row["id"], str(values["preempt"])):
        loop = "QOS Preemption loop detected"
        raise RefusedError(f"sacctmgr: error: {loop}", f" Error with request: {loop}")
    table = schema.qos
    change.connection.execute(
        table.update().where(table.c.id == row["id"]).values(**values, **change.stamp())
    )
    change.log("Modify QOS", "", row["name"], _info(words))


def _is_loop(change: Change, qos_id: int, preempt: str) -> bool:
    """Return whether a QOS would preempt itself, directly or through those that it preempts."""
    table = schema.qos
    query = sa.select(table.c.id, table.c.preempt).where(table.c.is_deleted == 0)
    below = {row.id: row.preempt for row in change.connection.execute(query)} | {qos_id: preempt}
    waiting, seen = [qos_id], set[int]()
    while waiting:
        for word in filter(None, below.get(waiting.pop(), "").split(",")):
            if int(word) == qos_id:
                return True
            if int(word) not in seen:
                seen.add(int(word))
                waiting.append(int(word))
    return False


def delete(change: Change, where: Words, _: Words) -> None:
    """Remove QOS, also from the lists of all associations."""
    require_administrator(change, "delete QOS")
    if not where.items:
        raise RefusedError(NO_CONDITIONS)
    rows = _selected(change, where)
    if not rows:
        raise RefusedError(" Nothing deleted", is_output=True)
    ids = {row["id"] for row in rows}
    if 1 in ids:
        raise RefusedError(" Error with request: The QOS normal cannot be removed")
    _refuse_defaults(change, {row["id"]: row["name"] for row in rows})
    removed_records.remove(
        change, schema.qos.c.name, [row["name"] for row in rows], schema.jobs.c.qos
    )
    tied = schema.associations
    for assoc_row in change.connection.execute(sa.select(tied).where(tied.c.is_deleted == 0)).all():
        own = [word for word in assoc_row.qos.split(",") if word and int(word) not in ids]
        delta = [
            word for word in assoc_row.delta_qos.split(",") if word and int(word[1:]) not in ids
        ]
        values = {
            "qos": ",".join(own),
            "delta_qos": ",".join(delta),
        }
        if any(getattr(assoc_row, name) != value for name, value in values.items()):
            change.connection.execute(
                tied.update().where(tied.c.id == assoc_row.id).values(**values, **change.stamp())
            )
    for row in rows:
        change.log("Remove QOS", "", row["name"], "")
    change.lines += [" Deleting QOS(s)...", *(f"  {row['name']}" for row in rows)]
    change.changed += len(rows)


def _refuse_defaults(change: Change, names: dict[int, str]) -> None:
    """Refuse to remove QOS that jobs of an association have by default."""
    clusters, tied = schema.clusters, schema.associations
    query = (
        sa.select(clusters.c.name, tied.c.account, tied.c.user, tied.c.partition)
        .add_columns(tied.c.default_qos_id)
        .join(clusters, clusters.c.id == tied.c.cluster_id)
        .where(tied.c.is_deleted == 0, tied.c.default_qos_id.in_(names))
        .order_by(clusters.c.name, tied.c.account, tied.c.user, tied.c.partition)
    )
    lines = []
    for cluster, account, user, partition, qos_id in change.connection.execute(query):
        line = f"  DefQOS = {names[qos_id]:<10s} C = {cluster:<10s} A = {account:<20s}"
        line += f" U = {user:<9s}" if user else ""
        lines.append(line + (f" P = {partition}" if partition else ""))
    if lines:
        raise RefusedError(
            " Associations listed below have these as their Default QOS.",
            *lines,
            " Please either remove the qos' listed above from list and resubmit,",
            " or change the default qos to remove the qos.",
            " Changes Discarded",
        )


def _selected(change: Change, where: Words) -> list[Row]:
    table = schema.qos
    query = (
        sa.select(table)
        .where(table.c.is_deleted == 0, *conditions.of_qos(where))
        .order_by(table.c.id)
    )
    return [dict(row._mapping) for row in change.connection.execute(query)]


def _columns(change: Change, row: Row, words: Words) -> Row:
    """Return the columns of a QOS that `words` set.

    Raises:
        RefusedError: a bad value.
    """
    stored = limits.load(row["limits"])
    columns: Row = {}
    for key, op, value in words.items:
        try:
            if key in _SPECS:
                limits.parse_limit(stored, _SPECS[key], value, known=change.tres_names)
            elif key in limits.SINGLE_TRES:
                name, tres = limits.SINGLE_TRES[key]
                limits.parse_limit(stored, _SPECS[name], value, tres, change.tres_names)
            elif key in ("Description", "Descriptions"):
                columns["description"] = value.lower()[:255]
            elif key == "Flags":
                columns["flags"] = _flags(str({**row, **columns}["flags"]), op, value)
            elif key == "Preempt":
                columns["preempt"] = _preempt(change, str({**row, **columns}["preempt"]),
                                              op, value)  # fmt: skip
            elif key == "PreemptMode":
                columns["preempt_mode"] = _mode(key, value)
            elif key == "Priority":
                columns["priority"] = _count(key, value)
            elif key == "GraceTime":
                columns["grace_time_s"] = _seconds(key, value)
            elif key in ("UsageFactor", "UsageThreshold", "LimitFactor"):
                _factor(stored, key, value)
            elif key == "PreemptExemptTime":
                _exempt(stored, value)
        except limits.LimitValueError as error:
            raise BadValueError(key, value, str(error)) from None
    columns["limits"] = limits.dump(stored)
    return columns


def _flags(present: str, op: str, value: str) -> str:
    chosen = []
    for word in value.split(","):
        if word.strip() in _CLEAR and value:
            continue
        flag = word.strip().lower()
        flags = [name for name in FLAGS if name.lower() == flag]
        if not flags:
            raise RefusedError(
                " Unknown QOS flag used in:",
                f"  '{value}'",
                " Valid QOS flags are",
                f"  '{','.join(FLAGS)}'",
                is_output=True,
            )
        chosen.append(flags[0])
    own = set(present.split(",")) - {""}
    if op == "=":
        own = set(chosen)
    elif op == "+=":
        own |= set(chosen)
    else:
        own -= set(chosen)
    return ",".join(name for name in FLAGS if name in own)


def _preempt(change: Change, present: str, op: str, value: str) -> str:
    own = {int(word) for word in present.split(",") if word}
    for sign, names in signed_words(op, value) or [(op, value)]:
        ids = set() if names in _CLEAR else set(qos_id_list(change, names))
        own = ids if sign == "=" else own | ids if sign == "+=" else own - ids
    return ",".join(map(str, sorted(own)))


def _mode(key: str, value: str) -> str:
    words = []
    for word in value.lower().split(","):
        if word in _CLEAR:
            continue
        if word not in PREEMPT_MODES:
            raise BadValueError(key, value, " Bad Preempt Mode given: {word}")
        words.append(word)
    return ",".join(words) or "cluster"


def _count(key: str, value: str) -> int:
    if value == "-1":
        return 0
    count = whole_number(value)
    if count is None or count >= INFINITE - 1:
        raise BadNumberError(key, value)
    return count


def _seconds(key: str, value: str) -> int:
    if value == "-1":
        return 0
    if value.isascii() and value.isdigit():
        return _count(key, value)
    try:
        return parse_time_limit_s(value)
    except UnitError:
        raise BadNumberError(key, value) from None


def _factor(stored: limits.Stored, key: str, value: str) -> None:
    if value in _CLEAR:
        stored.pop(key, None)
        return
    try:
        number = float(value)
    except ValueError:
        raise BadNumberError(key, value) from None
    if not 0 <= number < 1e9:
        raise BadNumberError(key, value)
    stored[key] = round(number * 1_000_000)


def _exempt(stored: limits.Stored, value: str) -> None:
    if value in _CLEAR:
        stored.pop("PreemptExemptTime", None)
        return
    try:
        stored["PreemptExemptTime"] = parse_time_limit_s(value)
    except UnitError:
        text = f" Bad PreemptExemptTime format: PreemptExemptTime={value}"
        raise RefusedError(text) from None


def _info(words: Words) -> str:
    return ", ".join(f"{key}{op}{value}" for key, op, value in words.items if key != "Names")
