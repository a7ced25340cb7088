"""PrivateData in lists of sacctmgr: each word hides what Slurm 22.05 hides by it, and no more."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd.admin.verbs import actor_of
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.show import list_entities
from pyslurm_ng.kernels.records import project
from pyslurm_ng.wire.dbd_messages import ListEntities
from tests.dbd.accounting_room import OpenStore, manage, managed

SCENARIO = (
    "add account physics",
    "add account chem",
    "add user alice account=physics",
    "add user bob account=physics",
    "add user bob account=chem",
    "add user carol account=chem",
)
WORDS = ("jobs", "users", "accounts", "usage")
OWN = {("root", ""), ("physics", ""), ("physics", "alice")}
"""What alice has to do with: her association and the accounts above it."""


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """Two accounts with three users, of which alice has one."""
    return open_store(managed(SCENARIO))


def seen(store: Database, entity: str, word: str, name: str = "alice") -> set[tuple[object, ...]]:
    """Return account and user of each row that somebody sees with a word of PrivateData."""
    with store.read() as connection:
        actor = actor_of(connection, 1001, name, name == "root")
        listed = list_entities(connection, ListEntities(entity, [], []), actor, frozenset({word}))
    columns = [listed.fields.index(name) for name in ("Account", "User") if name in listed.fields]
    return set(map(tuple, project(listed.records, columns)))


@pytest.mark.parametrize(
    ("entity", "hiding"), [("association", "users"), ("user", "users"), ("account", "accounts")]
)
def test_each_word_hides_its_own_records(store: Database, entity: str, hiding: str) -> None:
    """PrivateData=usage is about reports and shares: it keeps no name secret."""
    everything = seen(store, entity, "jobs")
    for word in WORDS:
        assert (seen(store, entity, word) < everything) == (word == hiding), word
        assert seen(store, entity, word, "root") == everything


def test_private_users_see_the_accounts_above_them(store: Database) -> None:
    """Without these sacctmgr would show a tree without branches."""
    assert seen(store, "association", "users") == OWN
    assert seen(store, "account", "accounts") == {("physics",)}


def test_coordinators_see_their_accounts(store: Database) -> None:
    """Associations of all users in them; in the list of users only themselves, as in Slurm."""
    manage(store, "add coordinator account=chem names=alice")
    led = {("chem", ""), ("chem", "bob"), ("chem", "carol")}
    assert seen(store, "association", "users") == OWN | led
    assert seen(store, "user", "users") == {("alice",)}
    assert seen(store, "account", "accounts") == {("chem",), ("physics",)}
