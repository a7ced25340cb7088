"""sacctmgr modify: who inherits what, which accounts conditions mean, users with a new name."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd import removed, schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.tree import Tree
from pyslurm_ng.dbd.updates import association_update, store_value
from tests.dbd.accounting_room import OpenStore, manage, managed, rows

SCENARIO = (
    "add account lab",
    "add account group parent=lab",
    "add user ann account=lab",
    "add user ben account=group",
    "add user cem account=group maxjobs=9",
    "add qos high",
)
LAB = "  C = demo       A = lab of root"
ANN = "  C = demo       A = lab                  U = ann      "
BEN = "  C = demo       A = group                U = ben      "
CEM = "  C = demo       A = group                U = cem      "


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """An account with another one below it, and a user in each."""
    return open_store(managed(SCENARIO))


@pytest.mark.parametrize(
    ("setting", "lines"),
    [
        ("maxjobs=5", [LAB, BEN, ANN]),  # cem has one of his own
        ("maxsubmitjobs=5", [LAB, BEN, CEM, ANN]),
        ("maxnodes=5", [LAB, BEN, CEM, ANN]),
        ("qos=high", [LAB, BEN, CEM, ANN]),
        ("priority=5", [LAB, BEN, CEM, ANN]),
        ("grpjobs=5", [LAB]),
        ("fairshare=5", [LAB]),
    ],
)
def test_users_who_inherit_a_setting_are_listed(
    store: Database, setting: str, lines: list[str]
) -> None:
    """As in Slurm 22.05: not the accounts between, and nobody who has a value of their own."""
    result = manage(store, f"modify account lab set {setting}")
    assert result.lines[0] == " Modified account associations..."
    assert sorted(result.lines[1:]) == sorted(lines)


def test_defaults_of_a_cluster_are_inherited_too(store: Database) -> None:
    result = manage(store, "modify cluster demo set maxjobs=5")
    assert BEN in result.lines and CEM not in result.lines


@pytest.mark.parametrize(
    ("where", "lines"),
    [
        ("parent=lab", ["  C = demo       A = group of lab"]),
        ("group parent=root", []),
        ("group user=ben", [BEN]),
        ("qos=high", []),
    ],
)
def test_conditions_choose_accounts(store: Database, where: str, lines: list[str]) -> None:
    """None of them is passed over: all accounts would change otherwise."""
    result = manage(store, f"modify account where {where} set grpjobs=4")
    heading = " Modified account associations..." if lines else " Nothing modified"
    assert result.lines == [heading, *lines]


def test_accounts_are_deleted_by_their_parent(store: Database) -> None:
    result = manage(store, "delete account where parent=lab")
    assert result.lines == [" Deleting accounts...", "  group"]
    (refused,) = manage(store, "delete account where user=ann").error_lines
    assert refused == " Use delete user to take users out of accounts."


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("cpu", "sacctmgr: error: slurmdb_format_tres_str: no TRES id found for cpu"),
        ("foo=1", "sacctmgr: error: slurmdb_format_tres_str: no TRES known by type foo"),
        ("cpu=4x", "sacctmgr: error: Invalid unit type 'x'. Possible options are 'KMGTP'"),
    ],
)
def test_a_bad_word_of_a_tres_list_is_named_as_in_slurm(
    store: Database, value: str, line: str
) -> None:
    result = manage(store, f"modify account lab set grptres={value}")
    assert (result.error_lines[0], result.exit_code) == (line, 1)


def test_a_renamed_user_keeps_everything(store: Database) -> None:
    """Associations keep their ids, accounts and limits; the controller hears of both names."""
    manage(store, "add coordinator account=lab names=ben")
    manage(store, "modify user ben set adminlevel=operator maxjobs=3")
    with store.read() as connection:
        before = Tree(connection, 1).find("group", "ben")
        store_id, version = store_value(connection, "store_id"), store_value(connection, "version")
    result = manage(store, "modify user ben set newname=Bob")
    assert result.lines == [" Modified users...", "  ben"]
    with store.read() as connection:
        tree = Tree(connection, 1)
        after = tree.find("group", "bob")
        assert before is not None and after is not None and tree.find("group", "ben") is None
        assert (after["id"], after["limits"]) == (before["id"], {"MaxJobs": 3})
        assert after["lineage"] == before["lineage"].replace("0-ben", "0-bob")
        update = association_update(connection, "demo", store_id, int(version))
    assert update is not None
    assert [record.user for record in update.associations] == ["bob"]
    assert {user.name for user in update.users} >= {"bob"}
    users = dict(rows(store, schema.users, "name", "is_deleted"))
    assert (users["bob"], users["ben"]) == (0, removed.NEVER_WAS)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("modify user ben set newname=ann", " User ann exists already, or had associations once"),
        ("modify user ben,ann set newname=x", " NewName is for one user: name who is to have it"),
        ("modify user ben set newname=a/b", " Bad user name 'a/b'"),
        ("modify user nosuch set newname=x", " NewName is for one user: name who is to have it"),
    ],
)
def test_names_that_cannot_be_given(store: Database, line: str, text: str) -> None:
    assert manage(store, line).error_lines == [text]


def test_only_operators_rename(store: Database) -> None:
    result = manage(store, "modify user ann set newname=x", user="ann", uid=1000)
    assert result.error_lines == [" Error with request: Access/permission denied"]
