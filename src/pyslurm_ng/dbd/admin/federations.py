"""sacctmgr add, modify and delete federation, and what `modify cluster` says of federations.

A cluster is in one federation at most, under a number that no other cluster there has. What each
cluster offers (features) and whether it takes jobs (state) is the cluster's own, and outlives its
membership as far as Slurm lets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin import removed_records
from pyslurm_ng.dbd.admin.change import Change, RefusedError, Row, require_administrator
from pyslurm_ng.dbd.admin.words import NO_CONDITIONS, Words
from pyslurm_ng.dbd.federation_state import ACTIVE, number_of, state_name

MOST_CLUSTERS = 63
_NOTHING = "Nothing to change"
_BAD_IN_NAMES = frozenset("/,'\"\\`")
_MOST_NAME = 128
_MOST_FEATURES = 255

_federations, _clusters = schema.federations, schema.clusters


def add(change: Change, words: Words, _: Words) -> None:
    """Create federations, with clusters."""
    require_administrator(change, "add federations")
    _refuse_flags(words)
    names = words.values("Names", lower=True)
    if not names:
        raise RefusedError(" Need name of federation to add.")
    clusters = _known_clusters(change, words.values("Clusters", lower=True))
    new = [name for name in dict.fromkeys(names) if not _exists(change, name)]
    old = [
        f" This federation {name} already exists.  Not adding."
        for name in dict.fromkeys(names)
        if name not in new
    ]
    if not new:
        raise RefusedError(*old, is_output=True)
    if clusters and len(new) > 1:
        raise RefusedError(" Can't assign clusters to multiple federations.")
    change.lines += old
    for name in new:
        _check_name(name)
        row = {"name": name, "flags": "", **change.stamp(is_new=True)}
        change.database.upsert(change.connection, _federations, ("name",), [row])
        change.log("Add Federations", "", name, "")
        for cluster in clusters:
            if cluster.federation:
                change.error_lines.append(_assigned(cluster))
            _join(change, cluster, name)
    change.lines += [" Adding Federation(s)", *(f"  {name}" for name in new)]
    if clusters:
        change.lines += [" Settings", *(f"  Cluster       = {row.name}" for row in clusters)]
    change.changed += len(new)


def modify(change: Change, where: Words, settings: Words) -> None:
    """Let clusters join a federation, or leave it."""
    require_administrator(change, "modify federations")
    if not settings.items:
        raise RefusedError(" You didn't give me anything to set")
    _refuse_flags(settings)
    names = where.values("Names", lower=True)
    if len(names) != 1:
        raise RefusedError(" Can't assign clusters to multiple federations.")
    (name,) = names
    if not _exists(change, name):
        raise RefusedError(f" The federation {name} doesn't exist.")
    lines: list[str] = []
    for key, sign, text in settings.items:
        if key == "Clusters":
            lines += _change_members(change, name, sign, text)
    if not lines:
        raise RefusedError(_NOTHING, is_output=True)
    change.lines += [" Setting", *lines, " Modified federation...", f"  {name}"]
    change.changed += 1


def delete(change: Change, where: Words, _: Words) -> None:
    """Remove federations; their clusters are in none then."""
    require_administrator(change, "delete federations")
    names = where.values("Names", lower=True)
    if not names:
        raise RefusedError(NO_CONDITIONS)
    doomed = [name for name in dict.fromkeys(names) if _exists(change, name)]
    if not doomed:
        raise RefusedError(" Nothing deleted", is_output=True)
    for name in doomed:
        for cluster in _members(change, name):
            _leave(change, cluster)
        removed_records.remove(change, _federations.c.name, [name])
        change.log("Remove Federations", "", name, "")
    change.lines += [" Deleting federations...", *(f"  {name}" for name in doomed)]
    change.changed += len(doomed)


def set_on_cluster(change: Change, cluster_id: int, settings: Words) -> bool:
    """Change what a cluster says of federations; return whether anything has changed."""
    before = cluster = _cluster(change, cluster_id)
    for key, sign, text in settings.items:
        name = text.lower()
        if key == "Features":
            _set_features(change, cluster, sign, text)
        elif key == "Federation" and not name:
            _leave(change, cluster)
        elif key == "Federation" and name == cluster.federation:
            change.error_lines.append(
                f" The cluster {cluster.name} is already assigned to federation {name}"
            )
        elif key == "Federation":
            if not _exists(change, name):
                raise RefusedError(f" The federation {name} doesn't exist.")
            if cluster.federation:
                change.error_lines.append(_assigned(cluster))
            _join(change, cluster, name)
        cluster = _cluster(change, cluster_id)
    if "FedState" in settings:
        # Behind the others: who joins is ACTIVE unless the command says more.
        state = number_of(settings.last("FedState") or "")
        if state is None:
            raise RefusedError(f"Invalid FedState {settings.last('FedState')}.")
        _set(change, cluster, federation_state=state)
    return tuple(_cluster(change, cluster_id)) != tuple(before)


def _cluster(change: Change, cluster_id: int) -> sa.Row[Any]:
    return change.connection.execute(sa.select(_clusters).where(_clusters.c.id == cluster_id)).one()


def lines_of_settings(settings: Words) -> list[str]:
    """Return what `modify cluster` shows of them, in Slurm's order."""
    lines = []
    for key, sign, text in settings.items:
        if key == "Features":
            lead = f"{sign:>2s}" if sign != "=" or not text else "  ="
            lines += [f"  Feature     {lead} {word}" for word in text.split(",")]
    if "Federation" in settings:
        lines.append(f"  Federation     = {(settings.last('Federation') or '').lower()}")
    if "FedState" in settings:
        state = number_of(settings.last("FedState") or "")
        lines.append(f"  FedState       = {state_name(state) if state is not None else ''}")
    return lines


def notes(settings: Words) -> list[str]:
    """Return what `modify cluster` adds: a state does less here than in Slurm."""
    if number_of(settings.last("FedState") or "") == ACTIVE:
        return []
    return [" FedState is stored and listed. slurmctld takes jobs in every state."]


def _refuse_flags(words: Words) -> None:
    """Refuse flags: Slurm has defined none yet."""
    if flags := words.values("Flags"):
        raise RefusedError(
            " Unknown federation flag used in:", f" '{flags[0]}'",
            " Valid federation flags are", "  '(null)'",
        )  # fmt: skip


def _check_name(name: str) -> None:
    if not name.isprintable() or len(name) > _MOST_NAME or _BAD_IN_NAMES.intersection(name):
        raise RefusedError(f" Bad federation name {name!r}")


def _exists(change: Change, name: str) -> bool:
    query = sa.select(_federations.c.name).where(
        _federations.c.name == name, _federations.c.is_deleted == 0
    )
    return change.connection.execute(query).first() is not None


def _known_clusters(change: Change, names: Iterable[str]) -> list[sa.Row[Any]]:
    """Return clusters by name, in that order.

    Raises:
        RefusedError: one does not exist.
    """
    rows = []
    for name in dict.fromkeys(names):
        row = change.connection.execute(
            sa.select(_clusters).where(_clusters.c.name == name, _clusters.c.is_deleted == 0)
        ).first()
        if row is None:
            raise RefusedError(f" The cluster {name} doesn't exist. Please add first.")
        rows.append(row)
    return rows


def _members(change: Change, federation: str) -> list[sa.Row[Any]]:
    query = sa.select(_clusters).where(
        _clusters.c.federation == federation, _clusters.c.is_deleted == 0
    )
    return list(change.connection.execute(query.order_by(_clusters.c.name)))


def _assigned(cluster: sa.Row[Any]) -> str:
    return f" The cluster {cluster.name} is assigned to federation {cluster.federation}"


def _change_members(change: Change, federation: str, sign: str, text: str) -> list[str]:
    """Do one `clusters=`, `+=` or `-=`; return its lines."""
    named = _known_clusters(change, (word.lower() for word in text.split(",") if word))
    lines = []
    if sign == "-=":
        for cluster in named:
            if cluster.federation != federation:
                change.error_lines.append(
                    f" The cluster {cluster.name} isn't assigned to federation {federation}"
                )
                continue
            _leave(change, cluster)
            lines.append(f"  Cluster      -= {cluster.name}")
        return lines
    kept = {cluster.name for cluster in named}
    if sign == "=":
        for cluster in _members(change, federation):
            if cluster.name not in kept:
                _leave(change, cluster)
                lines.append(f"  Cluster      -= {cluster.name}")
    for cluster in named:
        if cluster.federation == federation:
            change.error_lines.append(
                f" The cluster {cluster.name} is already assigned to federation {federation}"
            )
            continue
        if cluster.federation:
            change.error_lines.append(_assigned(cluster))
        _join(change, cluster, federation)
        lines.append(f"  Cluster      += {cluster.name}")
    return lines


def _join(change: Change, cluster: sa.Row[Any], federation: str) -> None:
    """Give a cluster the least number that is free in a federation."""
    taken = {row.federation_id for row in _members(change, federation)}
    number = next((n for n in range(1, MOST_CLUSTERS + 1) if n not in taken), 0)
    if not number:
        raise RefusedError(
            f" The federation {federation} has {MOST_CLUSTERS} clusters, as many as it may have"
        )
    _set(
        change, cluster, federation=federation, federation_id=number, federation_state=ACTIVE
    )  # fmt: skip


def _leave(change: Change, cluster: sa.Row[Any]) -> None:
    _set(change, cluster, federation="", federation_id=0, federation_state=0)


def _set_features(change: Change, cluster: sa.Row[Any], sign: str, text: str) -> None:
    words = [word for word in text.split(",") if word]
    present = [word for word in cluster.features.split(",") if word]
    if sign == "+=":
        words = [*present, *words]
    elif sign == "-=":
        words = [word for word in present if word not in words]
    features = ",".join(dict.fromkeys(words))
    if len(features) > _MOST_FEATURES or not features.isprintable():
        raise RefusedError(f" Features of a cluster: {_MOST_FEATURES} printable characters at most")
    _set(change, cluster, features=features)


def _set(change: Change, cluster: sa.Row[Any], **values: object) -> None:
    row: Row = dict(values)
    change.connection.execute(
        _clusters.update().where(_clusters.c.id == cluster.id).values(**row, **change.stamp())
    )
    info = ", ".join(f"{name}={value!r}" for name, value in values.items())
    change.log("Modify Clusters", cluster.name, cluster.name, info)
