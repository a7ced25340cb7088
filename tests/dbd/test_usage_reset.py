"""sacctmgr modify ... set RawUsage=0: whom it concerns, and what is refused in Slurm's words."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.updates import association_update
from tests.dbd.accounting_room import OpenStore, manage, managed, rows

SCENARIO = (
    "add account physics",
    "add account optics parent=physics",
    "add account chem",
    "add user alice account=optics",
    "add user bob account=physics",
    "add user alice account=chem",
    "add qos high",
)


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """Accounts at two levels, with users; a QOS."""
    return open_store(managed(SCENARIO))


def reset_names(database: Database) -> set[str]:
    """Return associations and QOS that a controller of the present version is told to reset."""
    with database.read() as connection:
        update = association_update(connection, "demo", "", 0)
    assert update is not None
    names = {
        f"{assoc.account}/{assoc.user}" for assoc in update.associations if assoc.usage_reset_us
    }
    return names | {qos.name for qos in update.qos if qos.usage_reset_us}


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("modify account physics set RawUsage=0",
         {"physics/", "optics/", "physics/bob", "optics/alice"}),
        ("modify account chem,optics set rawusag=00",
         {"chem/", "chem/alice", "optics/", "optics/alice"}),
        ("modify user alice where account=chem cluster=demo set RawUsage=0", {"chem/alice"}),
        ("modify qos high set RawUsage=0", {"high"}),
    ],
)  # fmt: skip
def test_an_account_is_reset_with_all_below(store: Database, line: str, names: set[str]) -> None:
    """Without a line, as in Slurm, but with one in the log; a preview stores nothing."""
    assert manage(store, line, commit=False).changed
    assert reset_names(store) == set()
    result = manage(store, line)
    assert (result.exit_code, result.lines, result.error_lines) == (0, [], [])
    assert reset_names(store) == names
    assert rows(store, schema.txn, "info")[-1] == ("raw_usage=0",)


ERROR = "sacctmgr: error: "
MISSING = f"{ERROR}Failed to find cluster demo account"


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("modify account chem set RawUsage=1", [f"{ERROR}Raw usage can only be set to 0 (zero)"]),
        ("modify qos high set RawUsage=-1", [f"{ERROR}Raw usage can only be set to 0 (zero)"]),
        ("modify account chem set RawUsage=0.5",
         [f"{ERROR}Invalid value for RawUsage (0.5)", " You didn't give me anything to set"]),
        ("modify account where parent=root set RawUsage=0",
         [f"{ERROR}An association name is required to remove usage"]),
        ("modify user alice set RawUsage=0", [f"{ERROR}An account must be specified"]),
        ("modify user where account=chem set RawUsage=0",
         [f"{ERROR}A user name is required to remove usage"]),
        ("modify account chem,none set RawUsage=0", [f"{MISSING} none association in database"]),
        ("modify user bob where account=chem set RawUsage=0",
         [f"{MISSING} chem user bob association in database"]),
        ("modify account chem where cluster=nosuch set RawUsage=0",
         [f"{ERROR}Failed to find cluster nosuch in database"]),
        ("modify qos none set RawUsage=0", [f"{ERROR}Failed to find QOS none"]),
        ("modify qos set RawUsage=0", [f"{ERROR}A QOS name is required to remove usage"]),
        ("modify account chem set MaxJobs=3 RawUsage=0",
         [f"{ERROR}RawUsage=0 cannot be set together with MaxJobs=3"]),
    ],
)  # fmt: skip
def test_other_values_and_unknown_names(store: Database, line: str, lines: list[str]) -> None:
    """Nothing is stored, not even for those that are known."""
    result = manage(store, line)
    assert (result.exit_code, result.error_lines) == (1, lines)
    assert reset_names(store) == set()


def test_only_operators_reset_usage(store: Database) -> None:
    """A coordinator could give the users of an account more than their share."""
    assert manage(store, "add coordinator account=chem names=alice").exit_code == 0
    result = manage(store, "modify account chem set RawUsage=0", user="alice", uid=1000)
    assert result.exit_code == 1
    assert result.error_lines == [" Error with request: Access/permission denied"]
    assert reset_names(store) == set()


def test_an_older_store_gets_the_times_of_resets(store: Database) -> None:
    """Schema 10 did not have them; nothing had been reset then."""
    with store.write() as connection:
        for table in ("associations", "qos"):
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN usage_reset_us")
        version = schema.store.update().where(schema.store.c.name == "schema_version")
        connection.execute(version.values(value="10"))
    store.open()
    assert reset_names(store) == set()
    assert manage(store, "modify qos high set RawUsage=0").exit_code == 0
    assert reset_names(store) == {"high"}
