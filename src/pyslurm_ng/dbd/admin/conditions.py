"""Which records the conditions of a sacctmgr command mean, for changes and for lists.

Each condition that an entity takes is looked at here or by the one that asks: a condition that is
read and then ignored would change or remove all records. For the same reason a condition without a
value, as a script writes it where a variable is empty (`account=$ACCOUNT`), means no record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.units import whole_number
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.admin.words import Words, unknown_condition
from pyslurm_ng.dbd.tree import Row, Tree

_LISTS = frozenset(
    (
        "Accounts", "Classification", "Clusters", "DefaultAccount", "DefaultQOS", "DefaultWCKey",
        "Description", "Descriptions", "Federation", "Flags", "IDs", "JobIDs", "Names",
        "Organization", "Parents", "PreemptMode", "QosLevel", "RPCVersions", "Servers", "Types",
        "Users", "WCKeys",
    )
)  # fmt: skip
"""Conditions whose value is a list of words, one of which a record is to have.

Partitions is none of them: `partition=` means associations that are for all partitions.
"""
OF_ASSOCIATIONS = ("Partitions", "Parents", "QosLevel", "DefaultQOS")
"""Conditions that `of_associations` looks at."""


def is_nothing(where: Words, but: str = "") -> bool:
    """Return whether a condition has no value, so that no record fulfils it.

    Args:
        but: a condition that means something of its own without a value.
    """
    return any(key in _LISTS and key != but and not where.values(key) for key, _, _ in where.items)


def of_associations(tree: Tree, where: Words) -> Callable[[Row], bool]:
    """Return the test of `OF_ASSOCIATIONS` for the rows of a tree; QOS are those in effect there.

    Raises:
        RefusedError: a QOS does not exist.
    """
    qos, default = _qos(tree, where, "QosLevel"), _qos(tree, where, "DefaultQOS")
    parents = where.values("Parents", lower=True)
    partitions = where.values("Partitions") or [""]
    tests: list[Callable[[Row], bool]] = []
    if "Partitions" in where:
        tests.append(lambda row: row["partition"] in partitions)
    if "Parents" in where:
        tests.append(lambda row: tree.parent_account(row) in parents)
    if "QosLevel" in where:
        tests.append(lambda row: any(tree.qos_names[number] in qos for number in tree.qos_ids(row)))
    if "DefaultQOS" in where:
        tests.append(lambda row: tree.default_qos(row) in default)
    return lambda row: all(test(row) for test in tests)


def _qos(tree: Tree, where: Words, key: str) -> list[str]:
    names = where.values(key, lower=True)
    known = {name: number for number, name in tree.qos_names.items()}
    for name in names:
        if name not in known:
            valid = ",".join(sorted(known, key=lambda name: known[name]))
            raise RefusedError(
                f"sacctmgr: error: You gave a bad qos '{name}'. Valid QOS's are {valid}",
                *unknown_condition(f"qos={where.last(key)}"),
            )
    return names


def is_cluster(cluster: Any, where: Words) -> bool:
    """Return whether a row of the clusters table fulfils the conditions of entity cluster."""
    classes = tuple(where.values("Classification", lower=True))
    if "Classification" in where and not cluster.classification.lower().startswith(classes):
        return False
    return all(
        key not in where or own.intersection(where.values(key, lower=True))
        for key, own in (
            ("Names", {cluster.name}),
            ("Flags", set(cluster.flags.lower().split(","))),
            ("RPCVersions", {str(cluster.rpc_version)}),
            ("Federation", {cluster.federation}),
        )
    )


def of_qos(where: Words) -> list[sa.ColumnElement[bool]]:
    """Return the clauses for rows of the QOS table that fulfil the conditions of entity qos."""
    table = schema.qos
    clauses: list[sa.ColumnElement[bool]] = [
        column.in_(where.values(key, lower=True))
        for key, column in (
            ("Names", table.c.name),
            ("Descriptions", sa.func.lower(table.c.description)),
            ("PreemptMode", table.c.preempt_mode),
        )
        if key in where
    ]
    if "IDs" in where:
        ids = [number for word in where.values("IDs") if (number := whole_number(word)) is not None]
        clauses.append(table.c.id.in_(ids))
    return clauses
