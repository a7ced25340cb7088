"""sacctmgr add, modify and delete cluster; registration by a controller's first contact."""

from __future__ import annotations

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin import conditions, federations, qos, removed_records
from pyslurm_ng.dbd.admin.accounts import (
    heirs,
    inherited_keys,
    remove_associations,
    update_association,
)
from pyslurm_ng.dbd.admin.change import (
    Change,
    RefusedError,
    require_administrator,
    require_idle,
    require_operator,
)
from pyslurm_ng.dbd.admin.settings import apply_settings, read_settings
from pyslurm_ng.dbd.admin.words import NO_CONDITIONS, Words

_CLASSES = ("Capability", "Capacity", "Capapacity")  # the last one as well: Slurm's manual has it


def _class(words: Words) -> str:
    """Return the classification that is given, which may be shortened; "" for none.

    Raises:
        RefusedError: no word, or the beginning of several.
    """
    word = words.last("Classification") or ""
    meant = [name for name in _CLASSES if name.lower().startswith(word.lower())]
    if not word or len(meant) == 1:
        return meant[0] if word else ""
    raise RefusedError(f" Classification={word}: {', '.join(_CLASSES)} or nothing is allowed")


def register(change: Change, name: str) -> int:
    """Create a cluster with its root associations, or bring a deleted one back; return its id."""
    table = schema.clusters
    row = {"name": name, "flags": "", **change.stamp(is_new=True)}
    change.database.upsert(change.connection, table, ("name",), [row])
    cluster_id: int = change.connection.execute(
        sa.select(table.c.id).where(table.c.name == name)
    ).scalar_one()
    keys = ("cluster_id", "account", "user", "partition")
    root = {
        "cluster_id": cluster_id,
        "account": "root",
        "user": "",
        "partition": "",
        "parent_id": 0,
        "lineage": "/",
        "qos": ",".join(map(str, qos.of_new_clusters(change))),
        "limits": "{}",
        "comment": "",
        "delta_qos": "",
        "shares": 1,
        "is_default": 0,
        **change.stamp(is_new=True),
    }
    tied = schema.associations
    change.database.upsert(change.connection, tied, keys, [root])
    root_id = change.connection.execute(
        sa.select(tied.c.id).where(
            tied.c.cluster_id == cluster_id, tied.c.account == "root", tied.c.user == ""
        )
    ).scalar_one()
    user = root | {
        "user": "root",
        "parent_id": root_id,
        "lineage": "/0-root/",
        "qos": "",
        "is_default": 1,
    }
    change.database.upsert(change.connection, tied, keys, [user])
    change.log("Add Clusters", name, name, "")
    return cluster_id


def register_external(change: Change, name: str) -> None:
    """Create a cluster whose books another slurmdbd keeps: it has no associations here."""
    row = {"name": name, "flags": schema.EXTERNAL, **change.stamp(is_new=True)}
    change.database.upsert(change.connection, schema.clusters, ("name",), [row])
    change.log("Add Clusters", name, name, f"flags='{schema.EXTERNAL}'")


def check_name(name: str) -> None:
    """Refuse a name that no cluster may have."""
    if not 0 < len(name) <= 40 or not name.isprintable() or any(char in name for char in "/,'\" "):
        raise RefusedError(f" Bad cluster name {name!r}")


def add(change: Change, words: Words, _: Words) -> None:
    """Create clusters, as a controller's registration would."""
    require_administrator(change, "add clusters")
    names = words.values("Names", lower=True)
    if not names:
        raise RefusedError(" Need name of cluster to add.")
    table = schema.clusters
    known = set(
        change.connection.execute(sa.select(table.c.name).where(table.c.is_deleted == 0)).scalars()
    )
    new_names = []
    for name in names:
        if name in known:
            change.lines.append(f" This cluster {name} already exists.  Not adding.")
        else:
            check_name(name)
            new_names.append(name)
    if not new_names:
        raise RefusedError(*change.lines, is_output=True)
    settings = read_settings(words)
    for name in new_names:
        cluster_id = register(change, name)
        if settings:
            tree = change.tree(cluster_id)
            root = tree.find("root")
            assert root is not None
            tied = schema.associations
            change.connection.execute(
                tied.update()
                .where(tied.c.id == root["id"])
                .values(**apply_settings(change, tree, root, settings))
            )
        if "Classification" in words:
            change.connection.execute(
                table.update().where(table.c.id == cluster_id).values(classification=_class(words))
            )
        federations.set_on_cluster(change, cluster_id, words)
    change.lines += [" Adding Cluster(s)", *(f"  {'Name':<14s} = {name}" for name in new_names)]
    shown = federations.lines_of_settings(words)
    if settings:
        shown += ["  Default Limits:", *settings.lines()]
    if shown:
        change.lines += [" Setting", *shown]
    change.changed += len(new_names)


def modify(change: Change, where: Words, settings_words: Words) -> None:
    """Change the defaults of clusters: the settings of their root association."""
    require_operator(change, "modify clusters")
    if not settings_words.items:
        raise RefusedError(" You didn't give me anything to set")
    settings = read_settings(settings_words)
    shown = [" Setting", *federations.lines_of_settings(settings_words)]
    if settings:
        shown += ["  Default Limits:", *settings.lines()]
    if named := _class(settings_words):
        shown.append(f"  Classification = {named}")
    lines: list[str] = []
    for cluster_id, cluster in _selected(change, where):
        tree = change.tree(cluster_id)
        root = tree.find("root")
        if settings and root is not None:
            update_association(change, tree, root, settings, cluster)
        of_federation = federations.set_on_cluster(change, cluster_id, settings_words)
        if not of_federation and _is_only_of_federations(settings_words):
            continue
        if "Classification" in settings_words:
            table = schema.clusters
            change.connection.execute(
                table.update()
                .where(table.c.id == cluster_id)
                .values(classification=_class(settings_words), **change.stamp())
            )
            info = f"classification='{_class(settings_words)}'"
            change.log("Modify Clusters", cluster, cluster, info)
        if settings and root is not None:
            lines += [
                " Modified cluster defaults for associations...",
                f"  C = {cluster:<10s} A = root",
                *heirs(tree, cluster, root, inherited_keys(settings)),
            ]
        else:
            lines += [" Modified cluster...", f"  {cluster}"]
    if not lines and change.error_lines:  # about federations that clusters are in already
        raise RefusedError("Nothing to change", is_output=True)
    if not lines:
        raise RefusedError(*shown, " Nothing modified", is_output=True)
    change.lines += [*shown, *dict.fromkeys(lines), *federations.notes(settings_words)]
    change.changed += len(lines)


def _selected(change: Change, where: Words, has_books: bool = True) -> list[tuple[int, str]]:
    """Return the clusters that the conditions name.

    Args:
        has_books: leave out clusters whose books another slurmdbd keeps.
    """
    table = schema.clusters
    kept = schema.has_books() if has_books else table.c.is_deleted == 0
    rows = change.connection.execute(sa.select(table).where(kept).order_by(table.c.name))
    return [(row.id, row.name) for row in rows if conditions.is_cluster(row, where)]


def _is_only_of_federations(settings: Words) -> bool:
    return all(key in ("Federation", "FedState", "Features") for key, _, _ in settings.items)


def delete(change: Change, where: Words, _: Words) -> None:
    """Remove clusters with all their associations; their jobs stay in the tables."""
    require_administrator(change, "delete clusters")
    if not where.items:
        raise RefusedError(NO_CONDITIONS)
    rows = _selected(change, where, has_books=False)
    if not rows:
        raise RefusedError(" Nothing deleted", is_output=True)
    for cluster_id, name in rows:
        doomed = change.tree(cluster_id).rows
        require_idle(change, doomed)
        remove_associations(change, name, doomed.values())
        removed_records.remove(
            change,
            schema.clusters.c.id,
            [cluster_id],
            schema.jobs.c.cluster_id,
            federation="",
            federation_id=0,
            federation_state=0,
        )
        change.log("Remove Clusters", name, name, "")
    change.lines += [" Deleting clusters...", *(f"  {name}" for _, name in rows)]
    change.changed += len(rows)
