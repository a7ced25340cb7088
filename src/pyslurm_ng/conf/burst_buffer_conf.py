"""burst_buffer.conf: who may have burst buffers, and how long the site's functions may take."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from pyslurm_ng.conf.lexer import ConfError, ConfErrors, ConfText, parse_text, read_conf
from pyslurm_ng.conf.plain_conf import raise_errors, read_keys
from pyslurm_ng.conf.schema import Table
from pyslurm_ng.conf.tables.keys import BURST_BUFFER
from pyslurm_ng.conf.tables.records import BurstBufferParameters

FILE = "burst_buffer.conf"
SCRIPT = "burst_buffer.lua"
_TABLE = Table(BURST_BUFFER, FILE)
_DIRECTIVE = re.compile(r"[A-Za-z0-9_]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstBufferConf(BurstBufferParameters):
    """What a burst_buffer.conf says; times are in seconds.

    `warnings` are for the log: keys and words without effect.
    """

    warnings: tuple[str, ...] = ()

    @property
    def hides_others(self) -> bool:
        """Whether users see their own burst buffers only."""
        return self.private_data or "PrivateData" in self.flags

    @property
    def tears_down_failed(self) -> bool:
        """Whether a burst buffer is torn down when its staging has failed."""
        return "TeardownFailure" in self.flags

    def may_use(self, user_name: str, uid: int) -> bool:
        """Return whether a user may have burst buffers."""
        names = {user_name, str(uid)}
        if self.allow_users:
            return not names.isdisjoint(self.allow_users)
        # Slurm 22.05 wants colons between names that are denied.
        return names.isdisjoint(":".join(self.deny_users).split(":"))


def load_burst_buffer_conf(directory: str) -> BurstBufferConf:
    """Return the burst_buffer.conf of a directory, or the defaults if it has none.

    Raises:
        ConfErrors: with every problem found.
    """
    path = os.path.join(directory, FILE)
    return _build(read_conf(path)) if os.path.exists(path) else parse_burst_buffer_conf("")


def parse_burst_buffer_conf(text: str) -> BurstBufferConf:
    """Read a burst_buffer.conf given as a string. Raises ConfErrors."""
    return _build(parse_text(text, FILE))


def _build(text: ConfText) -> BurstBufferConf:
    values, entries, warnings = read_keys(text, _TABLE, FILE, {})
    directive = entries.get("Directive")
    if directive is not None and not _DIRECTIVE.fullmatch(directive.value):
        text.fail(directive, "1 to 64 letters, digits and _ are allowed")
    if "AllowUsers" in entries and "DenyUsers" in entries:
        text.fail(entries["DenyUsers"], "AllowUsers is given, too; one of them is allowed")
    raise_errors(text)
    return BurstBufferConf(**values, warnings=warnings)


def file_errors(directory: str) -> list[ConfError]:
    """Return everything that is wrong with the burst_buffer.conf of a directory."""
    try:
        load_burst_buffer_conf(directory)
    except ConfErrors as problems:
        return problems.errors
    return []
