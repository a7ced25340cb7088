"""Users of the recordings, who have no account on this machine."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable
from typing import TypeVar

import pytest

# Each has a group of the same name and number.
UIDS = {"alice": 1001, "bob": 1002, "carol": 1003}

_Entry = TypeVar("_Entry")


def know_people(patch: pytest.MonkeyPatch) -> None:
    """Let this process find the users of the recordings; everybody else stays as on the host."""
    # Made here, since such a value that lives until the interpreter ends makes it print an error.
    people = [
        pwd.struct_passwd((name, "x", uid, uid, "", f"/home/{name}", "/bin/bash"))
        for name, uid in UIDS.items()
    ]
    groups = [grp.struct_group((name, "x", uid, [])) for name, uid in UIDS.items()]
    _add(patch, pwd, "getpwnam", {person.pw_name: person for person in people})
    _add(patch, pwd, "getpwuid", {person.pw_uid: person for person in people})
    _add(patch, grp, "getgrnam", {group.gr_name: group for group in groups})
    _add(patch, grp, "getgrgid", {group.gr_gid: group for group in groups})


def _add(
    patch: pytest.MonkeyPatch, module: object, name: str, entries: dict[object, _Entry]
) -> None:
    on_host: Callable[[object], _Entry] = getattr(module, name)

    def look_up(key: object) -> _Entry:
        return entries[key] if key in entries else on_host(key)

    patch.setattr(module, name, look_up)
