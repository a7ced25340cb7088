"""Which records the conditions of changes and lists mean: each counts, and none means all."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from tests.dbd.accounting_room import OpenStore, listed, manage, managed, rows

SCENARIO = (
    "add qos high preemptmode=requeue",
    "add qos low preemptmode=cancel description=slow",
    "add account physics organization=science",
    "add account optics parent=physics",
    "add account chem",
    "modify account chem set qos=high defaultqos=high",
    "add user alice account=physics wckey=alpha,beta defaultwckey=alpha",
    "add user bob account=optics adminlevel=Operator",
    "add user bob account=chem",
    "add user bob account=optics partition=debug",
    "add user carol account=chem",
)


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """Three accounts, three users, three QOS."""
    return open_store(managed(SCENARIO))


def changed(store: Database) -> list[tuple[object, ...]]:
    """Return everything that a change could have touched."""
    return [
        row
        for table in (schema.associations, schema.users, schema.accounts, schema.qos)
        for row in rows(store, table, "version", "is_deleted")
    ]


@pytest.mark.parametrize(
    "line",
    [
        "delete user where account=",
        "delete user where name=",
        "delete user where name=,",
        "delete user where name=alice account=",
        "delete user where name=alice cluster=",
        "delete user where wckey=",
        "delete user where defaultwckey=",
        "delete user where defaultwckey=beta",
        "delete user where defaultaccount=",
        "delete account where name=",
        "delete account where organization=",
        "delete account where parent=",
        "delete qos where name=",
        "delete qos where id=",
        "delete qos where preemptmode=",
        "delete cluster where name=",
        "delete resource where name=",
        "delete problem where cluster=",
        "modify user where name= set maxjobs=4",
        "modify user where account= set adminlevel=Administrator",
        "modify account where name= set maxjobs=4",
        "modify account where user= set maxjobs=4",
        "modify cluster where name= set maxjobs=4",
        "modify qos where name= set priority=4",
        # No record is so.
        "delete user where defaultaccount=nosuch",
        "delete user where wckey=nosuch",
        "delete user where defaultqos=low",
        "delete qos where preemptmode=suspend",
        "delete qos where description=nosuch",
        "delete qos where name=high preemptmode=cancel",
        "delete cluster where classification=nosuch",
        "modify user where defaultaccount=nosuch set maxjobs=4",
        "modify user where wckey=nosuch set adminlevel=Operator",
        "modify user where account=nosuch set adminlevel=Operator",
        "modify account where parent=nosuch set description=x",
        "modify cluster where classification=nosuch set maxjobs=4",
        "modify cluster where federation=nosuch set maxjobs=4",
        "modify cluster where flags=nosuch set maxjobs=4",
        "modify qos where preemptmode=suspend set priority=4",
        "modify qos where description=nosuch set priority=4",
    ],
)
def test_a_condition_that_nothing_fulfils_changes_nothing(store: Database, line: str) -> None:
    """`delete user account=$ACCOUNT` of a script without the variable is not for all users."""
    before = changed(store)
    result = manage(store, line)
    done = "deleted" if line.startswith("delete") else "modified"
    assert (result.exit_code, result.lines[-1]) == (1, f" Nothing {done}")
    assert changed(store) == before


@pytest.mark.parametrize("key", ["qos", "defaultqos"])
@pytest.mark.parametrize("line", ["delete user where {}", "modify account where {} set maxjobs=1"])
def test_an_unknown_qos_is_named(store: Database, line: str, key: str) -> None:
    """In Slurm's words."""
    before = changed(store)
    result = manage(store, line.format(f"{key}=nosuch"))
    assert (result.exit_code, result.error_lines) == (
        1,
        [
            "sacctmgr: error: You gave a bad qos 'nosuch'. Valid QOS's are normal,high,low",
            " Unknown condition: qos=nosuch",
            " Use keyword 'set' to modify value",
        ],
    )
    assert changed(store) == before


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("modify user where defaultaccount=optics set maxjobs=4", ["bob", "bob", "bob"]),
        ("modify user where qos=high set maxjobs=4", ["bob", "carol"]),
        ("modify user where defaultqos=high name=bob set maxjobs=4", ["bob"]),
        ("modify user where wckey=alpha set maxjobs=4", ["alice"]),
        ("modify user where defaultwckey=alpha set maxjobs=4", ["alice"]),
        ("modify user where name=bob partition= set maxjobs=4", ["bob", "bob"]),
        ("modify user where partition=debug set maxjobs=4", ["bob"]),
        ("modify user where account=chem adminlevel=Operator set maxjobs=4", ["bob"]),
    ],
)
def test_conditions_choose_associations(store: Database, line: str, names: list[str]) -> None:
    """All of them have to hold."""
    assert manage(store, line).exit_code == 0
    assert [row["User"] for row in listed(store, "association") if row["MaxJobs"]] == names


def test_rights_go_to_users_of_the_account(store: Database) -> None:
    """Not to every user."""
    manage(store, "modify user where account=physics set adminlevel=Operator")
    levels = {row["User"]: row["AdminLevel"] for row in listed(store, "user")}
    assert levels == {
        "alice": "Operator", "bob": "Operator", "carol": "None", "root": "Administrator",
    }  # fmt: skip


def test_qos_are_deleted_by_their_mode(store: Database) -> None:
    """The others stay."""
    assert manage(store, "delete qos where preemptmode=cancel").lines[1:] == ["  low"]
    assert [row["Name"] for row in listed(store, "qos")] == ["normal", "high"]


@pytest.mark.parametrize(
    ("entity", "words", "key", "names"),
    [
        ("user", "wckeys=alpha", "User", ["alice"]),
        ("user", "defaultwckey=alpha", "User", ["alice"]),
        ("user", "defaultwckey=beta", "User", []),
        ("user", "qos=high", "User", ["bob", "carol"]),
        ("user", "defaultqos=high", "User", ["bob", "carol"]),
        ("user", "partition=debug", "User", ["bob"]),
        ("account", "qos=high", "Account", ["chem"]),
        ("account", "defaultqos=high", "Account", ["chem"]),
        ("account", "parent=physics", "Account", ["optics"]),
        ("wckey", "wckeys=alpha", "WCKeys", ["alpha"]),
        ("association", "partition= users=bob", "Account", ["chem", "optics"]),
        ("association", "user=", "Account", ["root", "chem", "physics", "optics"]),
        ("association", "account=", "Account", []),
        ("association", "cluster=", "Account", []),
        ("user", "name=", "User", []),
        ("user", "defaultaccount=", "User", []),
        ("account", "name=", "Account", []),
        ("qos", "name=", "Name", []),
        ("cluster", "name=", "Cluster", []),
        ("cluster", "classification=nosuch", "Cluster", []),
        ("tres", "id=", "Type", []),
        ("tres", "type=", "Type", []),
        ("wckey", "name=", "WCKeys", []),
    ],
)
def test_lists_have_what_fulfils_the_conditions(
    store: Database, entity: str, words: str, key: str, names: list[str]
) -> None:
    """The same conditions as changes have, so that a list shows what would be changed."""
    assert [row[key] for row in listed(store, entity, words)] == names


@pytest.mark.parametrize(
    ("words", "what"), [("account=physics name=", "user"), ("name=alice account=", "account")]
)
def test_an_empty_list_takes_no_coordinator_away(store: Database, words: str, what: str) -> None:
    """As in Slurm."""
    manage(store, "add coordinator account=physics names=alice")
    result = manage(store, f"delete coordinator where {words}")
    assert (result.exit_code, result.error_lines) == (
        1,
        [f" You specified a non-existent {what} ''."],
    )
    assert rows(store, schema.coordinators, "account", "user") == [("physics", "alice")]
