"""Settings of associations from sacctmgr's `key=value` words, for add and modify alike."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.base.units import whole_number
from pyslurm_ng.dbd import limits, schema
from pyslurm_ng.dbd.admin.change import (
    BadValueError,
    Change,
    RefusedError,
    Row,
    refuse_denied,
)
from pyslurm_ng.dbd.admin.words import Words
from pyslurm_ng.dbd.tree import Tree

_SPECS = {spec.name: spec for spec in limits.ASSOCIATION_LIMITS}
_CLEAR = ("''", '""', "-1", "")


@dataclass(slots=True)
class Settings:
    """Association columns to set, and the lines that describe them."""

    words: list[tuple[str, str, str]] = field(default_factory=list)
    shown: list[tuple[str, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.words)

    def lines(self, parent: str = "") -> list[str]:
        """Return `  Fairshare     = 3` lines in Slurm's order, with that of a new parent."""
        shown = [*self.shown, ("Parent", parent)] if parent else self.shown
        return [
            f"  {name:<14s}= {value}"
            for name, value in sorted(shown, key=lambda pair: (pair[0] == "DefQOS", pair[0]))
        ]


def read_settings(words: Words) -> Settings:
    """Return the association settings among `words`; values are checked by `apply_settings`."""
    settings = Settings()
    for key, op, value in words.items:
        if key in _SPECS or key in limits.SINGLE_TRES or key in _OTHERS:
            settings.words.append((key, op, value))
            name, text = _as_shown(key, op, value)
            settings.shown.append((_SHORT.get(name, name), text))
    return settings


def _as_shown(key: str, op: str, value: str) -> tuple[str, str]:
    """Return how a setting is shown: times and memory as they are listed, NONE for no limit."""
    name, tres = limits.SINGLE_TRES.get(key, (key, ""))
    if name in _SPECS:
        stored: limits.Stored = {}
        try:
            limits.parse_limit(stored, _SPECS[name], value, tres)
        except limits.LimitValueError:
            return key, value  # refused when it is applied
        in_order = limits.load(limits.dump(stored))
        none = value.replace("-1", "NONE") if _SPECS[name].kind == "tres" else "NONE"
        return name, limits.show_limit(in_order, _SPECS[name]) or none
    if key == "QosLevel":
        names = {word.strip().lower() for word in value.split(",")} - {""}
        return key, op.removesuffix("=") + ",".join(sorted(names))
    return key, "NONE" if value == "-1" else value


_OTHERS = ("Fairshare", "DefaultQOS", "QosLevel", "Priority", "Comment")
_SHORT = {
    "DefaultQOS": "DefQOS",
    "QosLevel": "QOS",
    "MaxTRESPerJob": "MaxTRES",
    "MaxTRESMinsPerJob": "MaxTRESMins",
    "MaxWallDurationPerJob": "MaxWall",
    "MaxSubmitJobs": "MaxSubmitJobs",
}


def apply_settings(change: Change, tree: Tree, row: Row, settings: Settings) -> Row:
    """Return the columns that `settings` give an association (`row` with parsed limits).

    Raises:
        RefusedError: a bad value, an unknown QOS, a default QOS that is not allowed there.
    """
    stored = dict(row["limits"])
    columns: Row = {}
    for key, op, value in settings.words:
        try:
            if key == "Fairshare":
                columns["shares"] = _shares(value)
            elif key == "QosLevel":
                columns |= _qos(change, {**row, **columns}, op, value)
            elif key == "DefaultQOS":
                columns["default_qos_id"] = _default_qos(change, value)
            elif key == "Priority":
                _priority(stored, value)
            elif key == "Comment":
                columns["comment"] = value
            elif key in limits.SINGLE_TRES:
                name, tres = limits.SINGLE_TRES[key]
                limits.parse_limit(stored, _SPECS[name], value, tres, change.tres_names)
            else:
                limits.parse_limit(stored, _SPECS[key], value, known=change.tres_names)
        except (limits.LimitValueError, RefusedError) as error:
            if key == "DefaultQOS":
                raise RefusedError(
                    f"You gave a bad default qos '{value}'.  Use 'list qos' to get complete list."
                ) from None
            raise BadValueError(key, value, str(error)) from None
    columns["limits"] = limits.dump(stored)
    new = {**row, **columns}
    _check_default(tree, new)
    if not change.actor.is_operator and not _qos_allowed(tree, new) <= _qos_of_others(tree, row):
        raise refuse_denied()
    return columns


def _shares(value: str) -> int:
    if value.lower() == "parent":
        return schema.USE_PARENT_SHARES
    if value == "-1":
        return 1
    shares = whole_number(value)
    # Slurm's dumps write `parent` as the number that it is.
    if shares is None or shares > schema.USE_PARENT_SHARES:
        raise RefusedError(f"sacctmgr: error: Invalid value for FairShare ({value})")
    return shares


def _priority(stored: limits.Stored, value: str) -> None:
    priority = whole_number(value)
    if value == "-1":
        stored.pop("Priority", None)
    elif priority is not None and priority < NO_VAL:
        stored["Priority"] = priority
    else:
        raise RefusedError(f"sacctmgr: error: Invalid value for Priority ({value})")


def qos_id_list(change: Change, value: str) -> list[int]:
    """Return the ids of a list of QOS names, ascending.

    Raises:
        RefusedError: a name that does not exist.
    """
    known = change.qos_ids()
    ids = []
    for name in value.split(","):
        word = name.strip().lower()
        if not word:
            continue
        if word not in known:
            valid = ",".join(sorted(known, key=lambda name: known[name]))
            raise RefusedError(
                f"sacctmgr: error: You gave a bad qos '{word}'. Valid QOS's are {valid}"
            )
        ids.append(known[word])
    return sorted(set(ids))


_MIXED_QOS = (
    "sacctmgr: error: You can't set qos equal to something and then add or subtract from it in the "
    "same line"
)


def signed_words(op: str, value: str) -> list[tuple[str, str]]:
    """Return the operators and names of a list of QOS such as `=+high,-low`, empty if of none.

    Raises:
        RefusedError: some names have a sign, and others have none.
    """
    words = [word.strip() for word in value.split(",") if word.strip()]
    signed = [(f"{word[0]}=", word[1:]) for word in words if word[0] in "+-" and len(word) > 1]
    if op != "=" or not signed or value in _CLEAR:
        return []
    if len(signed) < len(words):
        raise RefusedError(_MIXED_QOS)
    return signed


def _qos(change: Change, row: Row, op: str, value: str) -> Row:
    if op == "=":
        signed = signed_words(op, value)
        if signed:
            result = {"qos": row["qos"], "delta_qos": row["delta_qos"]}
            for sign, name in signed:
                result |= _qos(change, {**row, **result}, sign, name)
            return result
        ids = [] if value in _CLEAR else qos_id_list(change, value)
        return {"qos": ",".join(map(str, ids)), "delta_qos": ""}
    ids = qos_id_list(change, value)
    if row["qos"]:
        own = {int(word) for word in row["qos"].split(",")}
        own = own | set(ids) if op == "+=" else own - set(ids)
        if own:
            return {"qos": ",".join(map(str, sorted(own)))}
        # Without a list all QOS from above hold again, but for those just taken away.
        row = {**row, "qos": "", "delta_qos": ""}
        return {"qos": ""} | _qos(change, row, op, value)
    deltas = {int(word[1:]): word[0] for word in row["delta_qos"].split(",") if word}
    deltas |= dict.fromkeys(ids, op[0])
    return {"delta_qos": ",".join(f"{deltas[name]}{name}" for name in sorted(deltas))}


def _default_qos(change: Change, value: str) -> int:
    if value in _CLEAR:
        return 0
    ids = qos_id_list(change, value)
    if len(ids) != 1:
        raise RefusedError(f" Bad DefaultQOS value: {value}")
    return ids[0]


def _qos_allowed(tree: Tree, row: Row) -> set[int]:
    """Return the QOS of an association as it will be."""
    # Asked of a copy: the tree remembers what its own rows inherit.
    allowed = tree.qos_ids({**row, "id": -1 - abs(row["id"])})
    tree._qos.pop(-1 - abs(row["id"]), None)
    return set(allowed)


def _qos_of_others(tree: Tree, row: Row) -> set[int]:
    """Return the QOS that a coordinator may give: those of the account above, and present ones."""
    above = tree.parent(row)
    known = tree.rows.get(row["id"])
    return {*(tree.qos_ids(above) if above else ()), *(tree.qos_ids(known) if known else ())}


def _check_default(tree: Tree, row: Row) -> None:
    if not row["default_qos_id"]:
        return
    if row["default_qos_id"] not in _qos_allowed(tree, row):
        raise RefusedError(
            " Error with request: The default QOS is not in the list of QOS of the association"
        )
