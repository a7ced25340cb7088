"""StoragePassScript: a program that prints the database's password, which may change."""

from __future__ import annotations

import errno
import os
import subprocess

import pymysql
from pymysql.constants import CR

_PATIENCE_S = 30


def obstacle(script: str) -> str:
    """Return why a program can never be run here, "" if it may be: then there is no use waiting."""
    if not os.path.exists(script):
        return f"StoragePassScript {script}: {os.strerror(errno.ENOENT)}"
    if not os.path.isfile(script) or not os.access(script, os.X_OK):
        return f"StoragePassScript {script}: {os.strerror(errno.EACCES)}"
    return ""


def printed_password(script: str) -> str:
    """Return the first line that a program prints.

    Raises:
        pymysql.err.OperationalError: it cannot be run, fails, takes too long or prints nothing.
    """
    try:
        done = subprocess.run(
            [script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise _failure(script, f"exit code {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise _failure(script, f"no end within {_PATIENCE_S} s") from None
    except OSError as error:
        raise _failure(script, error.strerror or str(error)) from None
    password = done.stdout.decode(errors="replace").partition("\n")[0].rstrip("\r")
    if not password:
        raise _failure(script, "it prints no password")
    return password


def _failure(script: str, reason: str) -> pymysql.err.OperationalError:
    return pymysql.err.OperationalError(
        CR.CR_CONN_HOST_ERROR, f"StoragePassScript {script}: {reason}"
    )
