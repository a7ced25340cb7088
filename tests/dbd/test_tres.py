"""TRES that are added beside those of controllers."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd.database import Database
from tests.dbd.accounting_room import OpenStore, at_noon, listed, manage


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """A cluster without anything."""
    return open_store(at_noon)


def test_a_tres_gets_the_next_number_once(store: Database) -> None:
    """Numbers below 1001 are Slurm's own."""
    before = {row["ID"] for row in listed(store, "tres")}
    manage(store, "add tres types=license names=matlab")
    made = manage(store, "add tres types=gres names=nic")
    again = manage(store, "add tres types=gres names=nic")
    rows = {(row["Type"], row["Name"]): row["ID"] for row in listed(store, "tres")}
    number = rows["license", "matlab"]
    assert number not in before and number > 1000
    assert rows["gres", "nic"] == number + 1
    assert made.lines == [f" Adding TRES gres/nic (id {number + 1})"]
    assert (again.lines, again.changed) == ([], 0)
    assert manage(store, "add tres types=cpu").changed == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [("types=time", "are allowed"), ("types=gres", "a name"), ("types=gres names=a/b", "a name"),
     ("types=cpu names=x", "are allowed"), ("names=x", "are allowed")],
)  # fmt: skip
def test_what_is_no_tres_is_refused(store: Database, words: str, says: str) -> None:
    """By its type or name."""
    refused = manage(store, f"add tres {words}")
    assert refused.exit_code == 1 and says in refused.error_lines[0]


def test_only_administrators_add_tres(store: Database) -> None:
    """Each makes rows for ever."""
    refused = manage(store, "add tres types=gres names=x", user="alice", uid=1000)
    assert refused.error_lines == [" Only administrators can add TRES"]
    assert ("gres", "x") not in {(row["Type"], row["Name"]) for row in listed(store, "tres")}
