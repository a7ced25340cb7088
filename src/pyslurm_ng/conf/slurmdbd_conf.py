"""slurmdbd.conf: where accounting is kept and which users may read it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from pyslurm_ng.conf.lexer import ConfError, ConfErrors, ConfText, Entry, parse_text, read_conf
from pyslurm_ng.conf.plain_conf import raise_errors, read_keys
from pyslurm_ng.conf.schema import Table
from pyslurm_ng.conf.tables.keys import SLURMDBD
from pyslurm_ng.conf.tables.records import SlurmdbdParameters

ENCRYPTION_WORDS = ("ssl_ca", "ssl_capath", "ssl_cert", "ssl_cipher", "ssl_key")
"""Words of StorageParameters that encrypt the connection to the database."""
STORAGE_WORDS = ("socket", *ENCRYPTION_WORDS)
_TABLE = Table(SLURMDBD, "slurmdbd.conf")
_REMOVED = {
    "archiveafter": "use the Purge keys",
    "archivetext": "",
    "defaultstoragetype": "",
    "jobpurge": "use PurgeJobAfter",
    "steppurge": "use PurgeStepAfter",
    "purgetxn": "use PurgeTXNAfter",
    "slurmdbdport": "use DbdPort",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmdbdConf(SlurmdbdParameters):
    """A whole slurmdbd.conf, every key with its default filled in.

    StorageType accounting_storage/sqlite keeps an embedded database. Its file is StorageLoc if that
    is an absolute path.
    """

    path: str
    text_hash: str
    given: frozenset[str]
    warnings: tuple[str, ...]


def load_slurmdbd_conf(path: str, is_private: bool = True) -> SlurmdbdConf:
    """Read and check a slurmdbd.conf.

    Args:
        is_private: also refuse a file that users other than its owner may read, since it holds the
            password of the database.

    Raises:
        ConfErrors: with every problem found.
    """
    text = read_conf(path)
    if is_private and not text.errors:
        mode = os.stat(path).st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            text.errors.append(
                ConfError(path, 0, "", f"mode is {stat.S_IMODE(mode):04o}; allowed: 0600 or less")
            )
    return _build(text)


def parse_slurmdbd_conf(text: str, path: str = "slurmdbd.conf") -> SlurmdbdConf:
    """Read a slurmdbd.conf given as a string.

    Raises:
        ConfErrors: with every problem found.
    """
    return _build(parse_text(text, path))


def _build(text: ConfText) -> SlurmdbdConf:
    values, given_entries, warnings = read_keys(text, _TABLE, "slurmdbd.conf", _REMOVED)
    is_named = any(error.key == "StorageType" for error in text.errors)
    if "StorageType" not in given_entries and not is_named:
        text.errors.append(ConfError(text.path, 0, "StorageType", "must be given"))
    for kind in ("script", "env"):
        if not values[f"archive_job_{kind}"] and f"ArchiveJob{kind.title()}" not in given_entries:
            values[f"archive_job_{kind}"] = values["archive_jobs"]
    for name in ("job_script", "job_env"):
        if values[f"purge_{name}_after"] == (0, ""):
            values[f"purge_{name}_after"] = values["purge_job_after"]
    values["dbd_addr"] = values["dbd_addr"] or values["dbd_host"]
    values["storage_user"] = values["storage_user"] or values["slurm_user"]
    if "CommunicationParameters" in given_entries:
        warnings += _unused_words(given_entries["CommunicationParameters"])
    if "StorageParameters" in given_entries and values["storage_type"].endswith("/mysql"):
        _check_storage_words(text, given_entries["StorageParameters"])
    raise_errors(text)
    return SlurmdbdConf(
        **values,
        path=text.path,
        text_hash=text.text_hash,
        given=frozenset(given_entries),
        warnings=warnings,
    )


def _check_storage_words(text: ConfText, entry: Entry) -> None:
    """Refuse a misspelt word: it would leave the connection to the database without encryption."""
    for word in filter(None, (word.strip() for word in entry.value.split(","))):
        name, _, value = word.partition("=")
        if name.strip().lower() not in STORAGE_WORDS or not value.strip():
            allowed = ", ".join(f"{known.upper()}=" for known in STORAGE_WORDS)
            text.fail(entry, f"'{name.strip().lower()}' is bad; allowed: {allowed}")


def _unused_words(entry: Entry) -> tuple[str, ...]:
    """Return a warning for each word about the network without effect."""
    where = f"{entry.file}:{entry.line}: {entry.key}"
    words = [word.strip() for word in entry.value.split(",") if word.strip()]
    return tuple(
        f"{where}={word} has no effect in pyslurm-ng: slurmdbd obeys NoInAddrAny alone"
        for word in words
        if word.lower() not in ("noinaddrany", "none", "(null)")
    )


def file_errors(path: str, is_private: bool = True) -> list[ConfError]:
    """Return everything that is wrong with a slurmdbd.conf."""
    try:
        load_slurmdbd_conf(path, is_private)
    except ConfErrors as problems:
        return problems.errors
    return []
