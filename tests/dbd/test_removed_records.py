"""What is removed is listed by WithDeleted if it is older than a day or has had jobs."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from pyslurm_ng.base.numbers import DAY_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.updates import association_update, store_value
from tests.dbd.accounting_room import (
    OpenStore,
    at,
    configured,
    finished,
    listed,
    manage,
    managed,
    on,
    record,
    started,
    submitted,
)

SCENARIO = (
    "add qos high",
    "add account lab",
    "add user ann account=lab",
    "add cluster other",
    "add federation all clusters=other",
    "add resource matlab server=flex count=10",
)
REMOVALS = (
    "delete user ann",
    "delete account lab",
    "delete qos high",
    "delete federation all",
    "delete cluster other",
    "delete resource matlab",
)
TABLES = (
    schema.users, schema.accounts, schema.associations, schema.qos, schema.clusters,
    schema.federations, schema.resources,
)  # fmt: skip


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """A record of each entity."""
    return open_store(managed(SCENARIO))


def names(store: Database, *flags: str) -> dict[str, list[object]]:
    """Return what lists have beside what each store has."""
    keys = {
        "user": "User", "account": "Account", "qos": "Name", "cluster": "Cluster",
        "federation": "Federation", "resource": "Name",
    }  # fmt: skip
    usual = ("root", "normal", "demo")
    return {
        entity: [row[key] for row in listed(store, entity, "", *flags) if row[key] not in usual]
        for entity, key in keys.items()
    } | {
        "association": [
            (row["Account"], row["User"])
            for row in listed(store, "association", "clusters=demo", *flags)
            if row["Account"] != "root"
        ]
    }


NOTHING: dict[str, list[object]] = {
    "user": [], "account": [], "qos": [], "cluster": [], "federation": [], "resource": [],
    "association": [],
}  # fmt: skip


def remove_all(store: Database) -> None:
    for line in REMOVALS:
        assert manage(store, line).exit_code == 0, line
    assert names(store) == NOTHING


def test_what_is_new_and_has_no_jobs_is_forgotten(store: Database) -> None:
    """Controllers are told that it is gone all the same."""
    with store.read() as connection:
        store_id, version = store_value(connection, "store_id"), store_value(connection, "version")
    remove_all(store)
    assert names(store, "withdeleted") == NOTHING
    with store.read() as connection:
        update = association_update(connection, "demo", store_id, int(version))
    assert update is not None
    assert (update.users_removed, update.qos_removed) == (["ann"], ["high"])
    assert len(update.associations_removed) == 2


def test_what_is_older_than_a_day_is_listed(store: Database) -> None:
    """With the word withdeleted."""
    with store.write() as connection:
        for table in TABLES:
            connection.execute(table.update().values(created_us=table.c.created_us - 2 * DAY_US))
    before = names(store)
    remove_all(store)
    assert names(store, "withdeleted") == before
    assert listed(store, "cluster", "", "withdeleted")[0]["Cluster"] == "demo"


def test_what_has_had_jobs_is_listed(store: Database) -> None:
    """However new it is."""
    with store.write() as connection:
        for table in TABLES:  # made before the jobs, within a day of now
            connection.execute(table.update().values(created_us=table.c.created_us - 10_000_000))
        tied = schema.associations.c
        ann = connection.execute(sa.select(tied.id).where(tied.user == "ann")).scalar_one()
        now_us = connection.execute(sa.select(sa.func.max(schema.txn.c.time_us))).scalar_one()
    record(store, configured(at("12:00:00")))
    record(store, submitted(now_us, 1))
    record(store, *started(now_us, 1, on(1)))
    record(store, *finished(now_us + 1, 1, 3, 0))
    with store.write() as connection:
        job = {"user": "ann", "account": "lab", "qos": "high", "association_id": ann}
        connection.execute(schema.jobs.update().values(**job))
    remove_all(store)
    listed_names = names(store, "withdeleted")
    assert listed_names == {
        **NOTHING, "user": ["ann"], "account": ["lab"], "qos": ["high"],
        "association": [("lab", "ann")],
    }  # fmt: skip


def test_a_user_that_comes_back_is_new(store: Database) -> None:
    """Its earlier record is none beside it."""
    remove_all(store)
    for line in SCENARIO[1:3]:
        assert manage(store, line).exit_code == 0
    assert names(store, "withdeleted")["user"] == ["ann"]
    assert names(store)["association"] == [("lab", ""), ("lab", "ann")]
