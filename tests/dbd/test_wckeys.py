"""Workload characterisation keys: which users have, their default, and those of their jobs."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import Actor
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.queries import JobListing
from pyslurm_ng.dbd.tree import user_records
from pyslurm_ng.dbd.updates import association_update, store_value
from pyslurm_ng.kernels.records import project
from pyslurm_ng.wire.dbd_messages import ListJobRecords
from tests.dbd.accounting_room import (
    OpenStore,
    at,
    configured,
    finished,
    listed,
    manage,
    on,
    record,
    register,
    rows,
    started,
    submitted,
)
from tests.dbd.rollup.usage_room import roll_up

pytestmark = pytest.mark.usefixtures("in_utc")


def prepared(database: Database) -> None:
    register(database, store_flags=("job_script", "track_wckey"))
    record(database, configured(at("12:00:00")))
    manage(database, "add account physics")


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """A cluster that tracks keys, with one account."""
    return open_store(prepared)


def keys(database: Database) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return each user's default and keys, as controllers are told."""
    with database.read() as connection:
        return {
            user.name: (user.default_wckey, user.wckeys)
            for user in user_records(connection, 1)
            if user.wckeys
        }


def test_users_are_added_with_keys(store: Database) -> None:
    """Users can be given more keys later, without another account."""
    made = manage(store, "add user alice account=physics wckeys=wa,wb defaultwckey=wb")
    assert made.lines[-3:] == [
        " WCKeys =",
        "  U = alice     W = wa         C = demo      ",
        "  U = alice     W = wb         C = demo      ",
    ]
    assert keys(store) == {"alice": ("wb", ("wa", "wb"))}
    assert manage(store, "add user alice wckeys=wb,wc").lines == [
        " WCKeys =", "  U = alice     W = wc         C = demo      ",
    ]  # fmt: skip
    assert keys(store) == {"alice": ("wb", ("wa", "wb", "wc"))}
    assert manage(store, "add user alice wckeys=wb").lines == [" Nothing new added."]
    assert [(row["WCKeys"], row["User"]) for row in listed(store, "wckey")] == [
        ("wa", "alice"), ("wb", "alice"), ("wc", "alice"),
    ]  # fmt: skip
    assert [row["WCKeys"] for row in listed(store, "wckey", "names=wc")] == ["wc"]
    assert listed(store, "wckey", "users=bob") == []
    (shown,) = listed(store, "user", "names=alice")
    assert shown["DefaultWCKey"] == "wb"


def test_the_first_key_is_the_default(store: Database) -> None:
    """As in Slurm 22.05; later ones do not take its place."""
    manage(store, "add user alice account=physics wckeys=wb,wa")
    assert keys(store) == {"alice": ("wb", ("wa", "wb"))}
    manage(store, "add user alice wckeys=wc")
    assert keys(store) == {"alice": ("wb", ("wa", "wb", "wc"))}


def test_a_default_is_one_of_a_users_keys(store: Database) -> None:
    """With the words of 22.05."""
    manage(store, "add user alice account=physics wckeys=wa,wb")
    refused = manage(store, "modify user alice set defaultwckey=wz")
    assert (refused.exit_code, refused.lines) == (1, [
        " Can't modify because these users aren't associated with new default wckey 'wz'...",
        "  U = alice C = demo",
    ])  # fmt: skip
    assert manage(store, "modify user alice set defaultwckey=wb").lines == [
        " Modified users...", "  alice",
    ]  # fmt: skip
    assert keys(store) == {"alice": ("wb", ("wa", "wb"))}
    assert manage(store, "modify user alice set defaultwckey=").exit_code == 1
    assert manage(store, "modify user alice set defaultwckey=-1").exit_code == 0
    assert keys(store) == {"alice": ("", ("wa", "wb"))}


def test_keys_are_taken_away(store: Database) -> None:
    """One of them, or all with the user; the default goes with its key."""
    manage(store, "add user alice account=physics wckeys=wa,wb defaultwckey=wa")
    assert manage(store, "delete user alice wckeys=wa,wx").lines == [
        " Deleting user WCKeys...", "  C = demo       W = wa                   U = alice    ",
    ]  # fmt: skip
    assert keys(store) == {"alice": ("", ("wb",))}
    assert manage(store, "delete user alice wckeys=wa").exit_code == 1
    assert manage(store, "delete user alice").exit_code == 0
    assert listed(store, "wckey") == []


@pytest.mark.parametrize("key", ["*wa", "a'b", 'a"b', "x" * 129, "a\x01"])
def test_bad_keys_are_refused(store: Database, key: str) -> None:
    """Nothing is half done."""
    before = rows(store, schema.users, "name")
    assert manage(store, f"add user alice account=physics wckeys=good,{key}").exit_code == 1
    assert rows(store, schema.users, "name") == before
    assert listed(store, "wckey") == []


def test_users_may_not_give_themselves_keys(store: Database) -> None:
    """Coordinators may not either."""
    manage(store, "add user alice account=physics")
    refused = manage(store, "add user alice wckeys=wa", "alice", 1001)
    assert refused.error_lines == [" Error with request: Access/permission denied"]
    assert manage(store, "delete user alice wckeys=wa", "alice", 1001).exit_code == 1


def test_jobs_bring_keys_with_them(store: Database) -> None:
    """Where they are not enforced; the controller is told, and usage is the key's own."""
    manage(store, "add user alice account=physics wckeys=wa defaultwckey=wa")
    with store.read() as connection:
        store_id = store_value(connection, "store_id")
        version = int(store_value(connection, "version"))
    for number, key in ((1, "*wa"), (2, "wa"), (3, "new")):
        first, last = at("12:01:00"), at("12:11:00")
        record(
            store,
            submitted(first, number, wckey=key),
            *started(first, number, on(number, 2)),
            *finished(last, number, 3, 0),
        )
    assert keys(store) == {"alice": ("wa", ("new", "wa"))}
    with store.read() as connection:
        update = association_update(connection, "demo", store_id, version)
    assert update is not None
    assert [(user.name, user.wckeys) for user in update.users] == [("alice", ("new", "wa"))]
    roll_up(store, at("13:00:10"))
    usage = schema.wckey_usage["hour"]
    assert [row[:2] + row[3:] for row in rows(
        store, usage, "wckey", "user", "tres_id", "allocated_s") if row[2] == 1] == [
        ("new", "alice", 1200), ("wa", "alice", 2400),
    ]  # fmt: skip


def test_keys_are_left_alone_where_they_are_not_tracked(database: Database) -> None:
    """TrackWCKey of the cluster's slurm.conf says it."""
    register(database)
    record(database, configured(at("12:00:00")))
    record(database, submitted(at("12:01:00"), 1, wckey="new"))
    assert listed(database, "wckey") == []


def test_a_job_has_the_number_of_its_users_key(store: Database) -> None:
    """Also where the key is the default; 0 without one. sacct shows it as WCKeyID."""
    manage(store, "add user alice account=physics wckeys=wa,wb")
    manage(store, "add user bob account=physics wckeys=wb")
    moment = at("12:01:00")
    record(store, submitted(moment, 1, wckey="wb"), submitted(moment, 2, wckey="*wa"))
    record(store, submitted(moment, 3))
    number = {
        (name, user): key for key, name, user in rows(store, schema.wckeys, "id", "name", "user")
    }
    request = ListJobRecords(["job_id", "wckey_id"], clusters=["demo"])
    with store.read() as connection:
        listing = JobListing(connection, request, Actor(0, "root", 3, frozenset()), False, moment)
        shown = project(listing.next_part(connection).records, (0, 1))
    expected = [(1, number["wb", "alice"]), (2, number["wa", "alice"]), (3, 0)]
    assert [tuple(row) for row in shown] == expected


def test_keys_are_listed_by_name_and_user(store: Database) -> None:
    """As in Slurm 22.05, whatever was added first."""
    manage(store, "add account keyed")
    for line in ("add user zoe account=keyed wckey=late", "add user ann account=keyed wckey=late",
                 "add user zoe wckey=early"):  # fmt: skip
        assert manage(store, line).exit_code == 0, line
    rows = listed(store, "wckey", "names=early,late")
    assert [(row["WCKeys"], row["User"]) for row in rows] == [
        ("early", "zoe"), ("late", "ann"), ("late", "zoe"),
    ]  # fmt: skip
