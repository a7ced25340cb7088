"""TRES that are added by REST; those of a cluster are added when its controller registers."""

from __future__ import annotations

import re

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import Change, DeniedError, RefusedError
from pyslurm_ng.dbd.admin.words import Words
from pyslurm_ng.dbd.tres_rows import track

NAMED = ("bb", "fs", "gres", "ic", "interconnect", "license")
"""Types of which there are several, so that each has a name."""
_FIXED = {f"{kind}/{name}".rstrip("/") for _, kind, name in schema.FIXED_TRES}
_NAME = re.compile(r"[\w.:@+-]{1,128}", re.ASCII)


def add(change: Change, words: Words, _: Words) -> None:
    """Count one TRES from now on, whose Types and Names say what it is.

    Raises:
        RefusedError: no rights, a type that is not known, or a name that is missing or wrong.
    """
    if not change.actor.is_administrator:
        raise DeniedError(" Only administrators can add TRES")
    kind, name = words.last("Types") or "", words.last("Names") or ""
    full = f"{kind}/{name}" if name else kind
    if full not in _FIXED:
        if kind not in NAMED:
            raise RefusedError(
                f" TRES type {kind!r}: {', '.join(sorted({*NAMED, *_FIXED}))} are allowed"
            )
        if not _NAME.fullmatch(name):
            raise RefusedError(f" TRES {full!r}: a name of letters, digits and .:@+-_ is needed")
    made = track(change.connection, [full])
    for number, made_name in made:
        change.log("Add TRES", "", made_name, f"id={number}")
        change.lines.append(f" Adding TRES {made_name} (id {number})")
    change.changed += len(made)
