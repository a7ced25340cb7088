"""Which users of the host get an account in a pretended cluster."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from pyslurm_ng.up import users
from pyslurm_ng.up.layout import BadRequest
from tests.world.people import UIDS, know_people

ALICE = UIDS["alice"]


def entry(name: str, uid: int, shell: str = "/bin/bash") -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, uid, "", "/", shell))


def test_people_are_users_that_may_log_in() -> None:
    """System users run no jobs."""
    names = users.ordinary_users(
        [
            entry("zoe", 1001),
            entry("alice", 1000),
            entry("daemon", 1),
            entry("nobody", 65534),
            entry("gone", 1002, "/usr/sbin/nologin"),
            entry("shut", 1003, "/bin/false"),
        ],
        (1000, 60000),
    )
    assert names == ["alice", "zoe"]


def test_the_host_says_which_uids_are_peoples(tmp_path: Path) -> None:
    file = tmp_path / "login.defs"
    file.write_text("# UID_MIN 1\nUID_MIN\t\t  500\nUID_MAX many\n")
    assert users.uid_limits(file) == (500, 60000)
    assert users.uid_limits(tmp_path / "none") == (1000, 60000)


def test_users_are_named_or_all_or_none() -> None:
    assert users.chosen("none", 0) == []
    assert users.chosen("", 0) == users.chosen("ALL", ALICE)
    assert users.chosen("root, root,", 0) == ["root"]


def test_who_starts_a_cluster_for_themselves_has_an_account_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their jobs had no account in sacct, and waited with AccountingStorageEnforce."""
    know_people(monkeypatch)
    assert users.chosen("", ALICE) == ["alice"]
    assert users.chosen("none", ALICE) == []
    assert users.chosen("", 54321) == []  # a container may run as a uid without a name


def test_an_unknown_user_is_named() -> None:
    with pytest.raises(BadRequest, match=r"^--users nosuch: there is no such user$"):
        users.chosen("root,nosuch", 0)


@pytest.mark.parametrize("name", ["a,b", "John Doe", "-x", "a=b", "u[1-3]", 'a"b', "o'neil", ""])
def test_a_name_that_is_no_word_of_sacctmgr_is_left_out(name: str) -> None:
    """One such user among all of the host's stopped `pyslurm-ng up`."""
    assert not users.can_be_named(name)


@pytest.mark.parametrize("name", ["alice", "a-b_c.d", "DOM\\x", "host$", "x@y.z", "#h", "Ünï", "9"])
def test_other_names_are_taken(name: str) -> None:
    """Directories have more in them than useradd allows."""
    assert users.can_be_named(name)


def test_only_users_without_an_account_get_one() -> None:
    """An administrator's own accounts stay; `up` may be run again."""
    assert users.commands(["alice", "bob"], "root|\nroot|root\n", "c") == [
        ["-i", "add", "account", "users", "Description=users of this host", "Cluster=c"],
        ["-i", "add", "user", "alice,bob", "Account=users", "Cluster=c"],
    ]
    again = "root|\nusers|\nphysics|\nphysics|alice\nusers|bob\n"
    assert users.commands(["alice", "bob"], again, "c") == []
    assert users.commands(["alice", "carol"], again, "c") == [
        ["-i", "add", "user", "carol", "Account=users", "Cluster=c"]
    ]
