"""slurmrestd of a cluster that `pyslurm-ng up` starts: pages and REST, on this host only."""

from __future__ import annotations

import grp
import http.client
import json
import os
import pwd
import secrets
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import psutil

from pyslurm_ng.up.layout import Layout
from pyslurm_ng.up.programs import tail, wait_until

NAME = "slurmrestd"
NEEDED = ("starlette", "uvicorn", "jwt", "jinja2")
KEY_FILE = "jwt_hs256.key"
KEY_BYTES = 32
_USER = "slurmrestd"
_FREE_IDS = range(61184, 65520)
"""Numbers that no account has, as systemd takes them for services."""
_HOST = "127.0.0.1"
_ANSWER_S = 5.0


def why_not() -> str:
    """Return why slurmrestd cannot run here; "" if it can."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    return f"{', '.join(missing)}: not installed (pip install pyslurm-ng[web])" if missing else ""


def address(port: int) -> str:
    """Return where the pages are."""
    return f"http://{_HOST}:{port}/"


def start(program: Path, port: int, layout: Layout, env: dict[str, str], limit_s: float) -> str:
    """Start it; return why it does not listen, "" if it does: a cluster is of use without it.

    Started by root it has a user of its own. Started by a user it is that user's, as is all of
    the cluster.
    """
    try:
        own = ["-u", own_user()] if os.geteuid() == 0 else []
    except LookupError as error:
        return str(error)
    with _new_log(layout.log / f"{NAME}.log") as output:
        child = subprocess.Popen(
            [str(program), *own, f"{_HOST}:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**env, "SLURMRESTD_SECURITY": "disable_user_check"},
            cwd="/",
            start_new_session=True,
        )
    pid_file = layout.run / f"{NAME}.pid"
    pid_file.write_text(f"{child.pid}\n")
    is_there = wait_until(
        lambda: child.poll() is not None or listens(psutil.Process(child.pid), port), limit_s
    )
    if is_there and child.poll() is None:
        return ""
    child.kill()
    child.wait()
    pid_file.unlink()
    return tail(layout.log / f"{NAME}.log", 1)


def _new_log(path: Path) -> IO[bytes]:
    """Return an empty log that no other user reads: faults in it name jobs and users."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)  # of one that was there
    return open(descriptor, "wb")


def own_user() -> str:
    """Return a user that nothing else runs as: tokens of all users pass through slurmrestd.

    That is the account of its name, else a number that is no account's and no process's. `nobody`
    will not do: jobs may be nobody's, and could read the memory of their user's processes.

    Errors: LookupError when all numbers are taken.
    """
    try:
        return pwd.getpwnam(_USER).pw_name
    except KeyError:
        pass
    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    for process in psutil.process_iter():
        try:
            taken.update(process.uids())
        except psutil.Error:
            continue
    free = [number for number in _FREE_IDS if number not in taken]
    if not free:
        raise LookupError(f"each user id from {_FREE_IDS[0]} to {_FREE_IDS[-1]} is somebody's")
    return str(secrets.choice(free))  # another `up` may choose at this moment


def login_link(where: str, token: str) -> str:
    """Return a link that logs a token's user in once, "" if slurmrestd makes none.

    Args:
        where: the address of the pages.
    """
    url = urlsplit(where)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=_ANSWER_S)
    try:
        connection.request("POST", "/login/link", headers={"X-SLURM-USER-TOKEN": token})
        answer = connection.getresponse()
        code = json.loads(answer.read(4096)).get("code", "") if answer.status == 200 else ""
    except (OSError, http.client.HTTPException, ValueError):
        return ""
    finally:
        connection.close()
    return f"{where}login?code={code}" if code else ""


def listens(process: psutil.Process, port: int) -> bool:
    """Return whether this process listens on a port of this host.

    That somebody answers there is not enough: any user of the host may have taken the port before
    slurmrestd did, and would be sent the token of the cluster's user.
    """
    look = getattr(process, "net_connections", None) or process.connections  # before psutil 6
    try:
        connections = look("tcp")
    except psutil.Error:
        return False
    return any(
        entry.status == psutil.CONN_LISTEN and entry.laddr.port == port for entry in connections
    )
