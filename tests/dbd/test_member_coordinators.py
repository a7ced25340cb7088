"""Accounts with the flag UsersAreCoords: their users coordinate them and the accounts below."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.tree import user_records
from pyslurm_ng.dbd.updates import association_update, store_value
from tests.dbd.accounting_room import OpenStore, listed, manage, managed

SCENARIO = (
    "add account lab flags=UsersAreCoords",
    "add account optics parent=lab",
    "add account other",
    "add user ann account=lab",
    "add user ben account=other",
)
AS_ANN = ("ann", 1001)


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """A lab whose users coordinate it."""
    return open_store(managed(SCENARIO))


def coordinated(store: Database) -> dict[str, tuple[str, ...]]:
    """Return what controllers are told."""
    with store.read() as connection:
        return {user.name: user.coordinator_of for user in user_records(connection, 1)}


def test_users_of_the_account_coordinate_it(store: Database) -> None:
    """Those of others do not."""
    added = manage(store, "add account more flags=UsersAreCoords")
    assert "  Flags           = UsersAreCoords" in added.lines
    manage(store, "delete account more")
    assert coordinated(store) == {"ann": ("lab",), "ben": (), "root": ()}
    assert manage(store, "add user ben account=optics", *AS_ANN).exit_code == 0
    assert manage(store, "add user ann account=other", *AS_ANN).exit_code == 1
    (row,) = listed(store, "account", "lab")
    assert (row["Flags"], row["Coordinators"], row["DirectCoordinators"]) == (
        "UsersAreCoords", "ann", "",
    )  # fmt: skip
    assert [row["Account"] for row in listed(store, "account", "flags=UsersAreCoords")] == ["lab"]


@pytest.mark.parametrize(
    "line",
    [
        "modify account lab set flags=NoUsersAreCoords",
        "modify account lab set flags-=UsersAreCoords",
        "delete account lab",
        "delete user where name=ann account=lab",
    ],
)
def test_they_cease_to(store: Database, line: str) -> None:
    """Controllers are told at once; an account that is made again has no flag."""
    manage(store, "delete account optics")
    with store.read() as connection:
        store_id, version = store_value(connection, "store_id"), store_value(connection, "version")
    assert manage(store, line).exit_code == 0
    with store.read() as connection:
        update = association_update(connection, "demo", store_id, int(version))
    assert update is not None
    coordinated_by = {user.name: user.coordinator_of for user in update.users}
    assert coordinated_by.get("ann", ()) == ()  # without an account she is gone
    assert manage(store, "add user ben account=lab", *AS_ANN).exit_code == 1


def test_an_unknown_flag_is_named(store: Database) -> None:
    """With those that there are."""
    refused = manage(store, "modify account lab set flags=foo")
    assert (refused.exit_code, refused.error_lines[0]) == (
        1,
        "sacctmgr: error: Unknown flag foo: UsersAreCoords and NoUsersAreCoords are allowed",
    )
    assert coordinated(store)["ann"] == ("lab",)


def test_coordinators_do_not_set_it(store: Database) -> None:
    """It gives rights."""
    refused = manage(store, "modify account optics set flags=UsersAreCoords", *AS_ANN)
    assert (refused.exit_code, refused.error_lines) == (
        1, [" Error with request: Access/permission denied"],
    )  # fmt: skip
    assert manage(store, "add account new parent=lab flags=UsersAreCoords", *AS_ANN).exit_code == 1
    assert [row["Account"] for row in listed(store, "account", "flags=UsersAreCoords")] == ["lab"]
