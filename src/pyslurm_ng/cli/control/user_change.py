"""scontrol --uid: a change of jobs as another user than the caller."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def may_be(uid: int) -> bool:
    """Return whether the caller can act as a user: as himself, and root as anybody."""
    return os.geteuid() in (0, uid)


def as_user(uid: int, act: "Callable[[], int]") -> int:
    """Do something in a process of a user, and return its exit code.

    The controller judges the request as that user's own: it trusts nothing that the caller says.
    """
    if uid == os.geteuid():
        return act()
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        _become(uid)
        code = act()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(code)


def _become(uid: int) -> None:
    """Take on the user and all groups of the user; a number without a name has none but its own."""
    import pwd

    try:
        person = pwd.getpwuid(uid)
    except KeyError:
        os.setgroups([])
        gid = uid
    else:
        os.initgroups(person.pw_name, person.pw_gid)
        gid = person.pw_gid
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
