"""Changes by sacctmgr: who may, what happens, what is printed.

Every change runs in one transaction and is rolled back unless it shall be committed: the first
call of a command that asks "(N/y)" does the work only to say what it would be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from pyslurm_ng.conf.effects.limits import unheld_tres
from pyslurm_ng.dbd.admin import (
    accounts,
    clusters,
    conditions,
    coordinators,
    federations,
    flat_file,
    jobs,
    problems,
    qos,
    resources,
    runs,
    tres,
    users,
)
from pyslurm_ng.dbd.admin.change import (
    BadNumberError,
    BadValueError,
    Change,
    RefusedError,
    actor_of,
)
from pyslurm_ng.dbd.admin.words import (
    NO_CONDITIONS,
    UnknownWordError,
    Words,
    is_key,
    read_set,
    read_where,
    unknown_condition,
    unknown_option,
)
from pyslurm_ng.dbd.database import Database, error_text, is_of_one_row
from pyslurm_ng.dbd.updates import next_version
from pyslurm_ng.wire.dbd_messages import Assignment, ChangeEntities, ChangeResult, LoadFile

HANDLERS: dict[tuple[str, str], Callable[[Change, Words, Words], None]] = {
    ("add", "account"): accounts.add,
    ("modify", "account"): accounts.modify,
    ("delete", "account"): accounts.delete,
    ("add", "user"): users.add,
    ("modify", "user"): users.modify,
    ("delete", "user"): users.delete,
    ("add", "coordinator"): coordinators.add,
    ("delete", "coordinator"): coordinators.delete,
    ("add", "cluster"): clusters.add,
    ("modify", "cluster"): clusters.modify,
    ("delete", "cluster"): clusters.delete,
    ("add", "federation"): federations.add,
    ("modify", "federation"): federations.modify,
    ("delete", "federation"): federations.delete,
    ("add", "qos"): qos.add,
    ("modify", "qos"): qos.modify,
    ("delete", "qos"): qos.delete,
    ("add", "resource"): resources.add,
    ("modify", "resource"): resources.modify,
    ("delete", "resource"): resources.delete,
    ("delete", "problem"): problems.delete,
    ("modify", "job"): jobs.modify,
    ("add", "tres"): tres.add,
    ("modify", "runawayjobs"): runs.end,
}

_UNKNOWN_IS_OUTPUT = ("qos", "resource", "job")
"""Entities of which Slurm names unknown settings on stdout."""

_BY_CONDITIONS = ("account", "user", "cluster", "problem", "qos", "resource")
"""Entities of which a change selects all records unless conditions say which."""


class _RollBack(Exception):
    """Not an error: how a preview ends."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The user that asks for a change.

    `is_service`: root or SlurmUser. `has_coordinators`: whether coordinators may do more than
    others (DisableCoordDBD).
    """

    uid: int
    name: str
    is_service: bool
    has_coordinators: bool = True


def change(database: Database, request: ChangeEntities, caller: Caller) -> ChangeResult:
    """Do what a `ChangeEntities` asks, or only say what it would do.

    Errors of the database pass through; everything that is wrong with the request is in the
    result.
    """
    try:
        return _transaction(database, request.commit, caller, lambda made: _run(made, request))
    except BadValueError as bad:
        return ChangeResult([], _bad_value(request, bad), 0, 1)
    except BadNumberError as bad:
        nothing = [" You didn't give me anything to set"] if request.verb == "modify" else []
        return ChangeResult([], [*bad.lines, *nothing], 0, 1)
    except UnknownWordError as unknown:
        lines = _unknown(request, unknown.text)
        if request.entity in _UNKNOWN_IS_OUTPUT and lines == unknown_option(unknown.text):
            return ChangeResult(lines, [], 0, 1)
        return ChangeResult([], lines, 0, 1)


def load(database: Database, request: LoadFile, caller: Caller) -> ChangeResult:
    """Do what a flat file says, or only say what it would do, as `change` does."""
    return _transaction(
        database, request.commit, caller, lambda made: flat_file.load(made, request)
    )


def _transaction(
    database: Database, commit: bool, caller: Caller, action: Callable[[Change], None]
) -> ChangeResult:
    """Run one change; roll it back if it only asks, changes nothing or is refused."""
    result: ChangeResult | None = None
    try:
        with database.write() as connection:
            actor = actor_of(
                connection, caller.uid, caller.name, caller.is_service, caller.has_coordinators
            )
            under_way = Change(
                database, connection, actor, next_version(connection), time.time_ns() // 1000
            )
            action(under_way)
            result = ChangeResult(
                under_way.lines, under_way.error_lines, under_way.changed, 0
            )  # fmt: skip
            if not commit or not under_way.changed:
                raise _RollBack
    except _RollBack:
        assert result is not None
    except (BadValueError, BadNumberError):
        raise
    except RefusedError as refused:
        if refused.is_output:
            return ChangeResult(refused.lines, under_way.error_lines, 0, 1)
        return ChangeResult([], refused.lines, 0, 1)
    except sa.exc.DBAPIError as error:
        if not is_of_one_row(error):
            raise
        # A name or text that is longer than its column; the message names the column.
        return ChangeResult([], [f" Not stored: {error_text(error)}"], 0, 1)
    return result


def _bad_value(request: ChangeEntities, bad: BadValueError) -> list[str]:
    """Return the lines for a value that cannot be taken; a QOS's is not named a second time."""
    word = next(
        (
            f"{condition.key}{condition.op}{condition.value}"
            for condition in (*request.where, *request.set)
            if condition.value == bad.value and is_key(condition.key, bad.key)
        ),
        f"{bad.key}={bad.value}",
    )
    lines = [line.replace("{word}", word) for line in bad.lines]
    return lines if request.entity == "qos" else [*lines, *_unknown_option(request, word)]


def _unknown(request: ChangeEntities, text: str) -> list[str]:
    in_where = any(
        text in (f"{condition.key}{condition.op}{condition.value}", condition.value)
        for condition in request.where
    )
    if request.verb == "delete" and request.entity != "coordinator":
        return [*unknown_condition(text), NO_CONDITIONS]
    if (request.verb == "modify" and in_where) or request.entity == "coordinator":
        return unknown_condition(text)
    return _unknown_option(request, text)


def _unknown_option(request: ChangeEntities, text: str) -> list[str]:
    """Return the lines for a setting that cannot be read; `add user` has no conditions."""
    lines = unknown_option(text)
    return lines[:1] if (request.verb, request.entity) == ("add", "user") else lines


def _refuse_names(entity: str, assignments: Iterable[Assignment]) -> None:
    """Refuse a word without a key among the settings of accounts, jobs and users, as Slurm does."""
    for assignment in assignments:
        if not assignment.key and entity == "account":
            raise RefusedError(" Can't modify the name of an account")
        if not assignment.key and entity in ("job", "user"):
            raise RefusedError(
                f" Bad format on {assignment.value}: End your option with an '=' sign"
            )


def _run(under_way: Change, request: ChangeEntities) -> None:
    handler = HANDLERS.get((request.verb, request.entity))
    if handler is None:
        raise RefusedError(f" {request.verb} {request.entity} is not supported")
    keeps = under_way.database.keeps_users
    if request.verb == "add":
        settings = read_set(request.entity, request.where, adding=True, keeps_users=keeps)
        handler(under_way, settings, Words())
    else:
        _refuse_names(request.entity, request.set)
        settings = read_set(request.entity, request.set, keeps_users=keeps)
        where = read_where(request.entity, request.where, keeps_users=keeps)
        if request.entity in _BY_CONDITIONS and conditions.is_nothing(where):
            done = "deleted" if request.verb == "delete" else "modified"
            raise RefusedError(f" Nothing {done}", is_output=True)
        handler(under_way, where, settings)
    for key, _, value in settings.items:
        if "TRES" in key and request.entity != "job":
            under_way.lines += unheld_tres(value)
