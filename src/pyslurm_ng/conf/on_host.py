"""What configuration files need and this host lacks: users, groups, programs, scripts, keys.

Other hosts may have them, so `slurmctld --check` only warns of them; a missing SlurmUser keeps
every daemon from starting.
"""

from __future__ import annotations

import ctypes
import glob
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from typing import Any

from pyslurm_ng.conf.lexer import ConfError, Entry, read_conf
from pyslurm_ng.conf.slurm_conf import LINE_KINDS, PARAMETER_TABLE, read_lines
from pyslurm_ng.conf.tables.key import Key
from pyslurm_ng.conf.values import BadValue, convert, option_text

_PROGRAMS = frozenset((
    "Epilog", "EpilogSlurmctld", "HealthCheckProgram", "MailProg", "Prolog", "PrologSlurmctld",
    "ResvEpilog", "ResvProlog", "SrunEpilog", "SrunProlog", "TaskEpilog", "TaskProlog",
    "UnkillableStepProgram",
))  # fmt: skip

_SCRIPTS = {
    ("JobSubmitPlugins", "lua"): "job_submit.lua",
    ("BurstBufferType", "burst_buffer/lua"): "burst_buffer.lua",
}
"""What must lie beside slurm.conf, by key and word."""

_MUNGE = "libmunge.so.2"
_SLURM_USER = next(key for key in PARAMETER_TABLE.keys if key.name == "SlurmUser")


def missing_users(path: str) -> list[ConfError]:
    """Return an error for each SlurmUser of a slurm.conf or slurmdbd.conf that does not exist on
    this host."""
    is_dbd = os.path.basename(path).startswith("slurmdbd")
    lines = read_conf(path).lines if is_dbd else read_lines(path).lines
    entries = (entry for line in lines for entry in line if entry.key.lower() == "slurmuser")
    return [
        ConfError(entry.file, entry.line, entry.key, f"this host has no user {entry.value}")
        for entry in entries
        if _can_be_user(entry.value) and not _is_known(entry.value)
    ]


def _can_be_user(word: str) -> bool:
    """Return whether a value can be a user at all; that it cannot is an error already."""
    try:
        convert(_SLURM_USER, word)
    except BadValue:
        return False
    return True


def _is_known(user: str) -> bool:
    if user.isdecimal():
        return True
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def missing_groups(path: str) -> list[str]:
    """Return a line for each AllowGroups= that names groups which do not exist on this host."""
    entries = (entry for line in read_lines(path).lines for entry in _of_partition(line))
    lines = []
    for entry in entries:
        missing = [
            word
            for word in (word.strip() for word in entry.value.split(","))
            if word and word.upper() not in ("ALL", "NONE") and not _is_group(word)
        ]
        if missing:
            problem = f"this host has no group {', '.join(missing)}"
            lines.append(str(ConfError(entry.file, entry.line, entry.key, problem)))
    return lines


def _of_partition(line: list[Entry]) -> list[Entry]:
    if line[0].key.lower() != "partitionname":
        return []
    return [entry for entry in line if entry.key.lower() == "allowgroups"]


def _is_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except (KeyError, ValueError):
        return False
    return True


def missing_authentication(auth_type: str, directory: str) -> list[str]:
    """Return a line if daemons could not start because munge or slurm.key is missing.

    slurm.key is in the directory of slurm.conf.
    """
    if auth_type == "auth/slurm":
        key = os.path.join(directory, "slurm.key")
        return [] if os.path.exists(key) else [f"AuthType=auth/slurm: {key}: not on this host"]
    try:
        ctypes.CDLL(_MUNGE)
    except OSError:
        problem = f"this host has no {_MUNGE}; install munge or set AuthType=auth/slurm"
        return [f"AuthType={auth_type}: {problem}"]
    return []


def missing_programs(path: str) -> list[str]:
    """Return a line for each program of a slurm.conf that cannot be run on this host."""
    return [
        str(ConfError(entry.file, entry.line, entry.key, f"{program}: {problem}"))
        for entry, program in _named_programs(path)
        if (problem := _why_not(program))
    ]


def missing_scripts(path: str) -> list[str]:
    """Return a line for each script of the site that a slurm.conf needs beside it."""
    lines = []
    for entry, key, value in parameters(path):
        for word in value if isinstance(value, tuple) else (value,):
            name = _SCRIPTS.get((key.name, word))
            script = os.path.join(os.path.dirname(path), name or "")
            if name and not os.path.exists(script):
                problem = f"{word} needs {script}, which this host lacks"
                lines.append(str(ConfError(entry.file, entry.line, entry.key, problem)))
    return lines


def _named_programs(path: str) -> Iterator[tuple[Entry, str]]:
    """Yield each program and where it is named; the value `none` names no program."""
    for entry, key, value in parameters(path):
        if key.name == "SlurmctldParameters":
            value = option_text(value, "fence_program")
        elif key.name not in _PROGRAMS:
            continue
        programs = value if isinstance(value, tuple) else (value,)
        yield from ((entry, program) for program in programs if program)


def parameters(path: str) -> Iterator[tuple[Entry, Key, Any]]:
    """Yield each parameter of a slurm.conf that can be read, its key and its value."""
    for line in read_lines(path).lines:
        if line[0].key.lower() in LINE_KINDS:
            continue
        for entry in line:
            key = PARAMETER_TABLE.find(entry.key)
            if key is None:
                continue
            try:
                yield entry, key, convert(key, entry.value)
            except BadValue:
                continue  # an error already


def _why_not(program: str) -> str:
    """Return why a program, or what a pattern names, cannot be run here; "" if it can."""
    if not program.startswith("/"):
        return "is not an absolute path"
    paths = glob.glob(program) if any(char in program for char in "*?[") else [program]
    if not paths:
        return "nothing on this host matches"
    for name in paths:
        try:
            mode = os.stat(name).st_mode
        except OSError as error:
            return f"{error.strerror} on this host"
        if not stat.S_ISREG(mode):
            return "is not a file on this host"
        if not mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH):
            return "cannot be executed on this host"
    return ""
