"""slurmdbd's command line and the source of its configuration.

slurmdbd.conf lies beside slurm.conf. Without one the embedded form runs: a SQLite file in
StateSaveLocation, everything else from slurm.conf.
"""

from __future__ import annotations

import getopt
import os
import re
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.base.units import format_seconds
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.quick import find_conf, quick
from pyslurm_ng.conf.slurmdbd_conf import SlurmdbdConf, load_slurmdbd_conf
from pyslurm_ng.daemon.log import level_number
from pyslurm_ng.daemon.options import complaint
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.admin.qos import check_name
from pyslurm_ng.dbd.database import mysql_url, sqlite_url
from pyslurm_ng.dbd.purge.rules import Policy, policy_of
from pyslurm_ng.wire.identity import AltAuth

USAGE = """\
Usage: slurmdbd [OPTIONS]
  -D              Run in the foreground.
  -f FILE         Read configuration from FILE instead of slurmdbd.conf beside slurm.conf.
  -h, --help      Print this help message.
  -n VALUE        Run at this niceness.
  -s              Change working directory to that of the log, or to /var/tmp.
  --systemd       Started by systemd: stay in the foreground and tell it when ready.
  -u              Print the schema versions of the database and of this slurmdbd, and end.
  -v              Log more; may be repeated.
  -V, --version   Print version information and end.
"""

_SLURM_CONF_KEYS = (
    "ClusterName", "AuthType", "AuthInfo", "AuthAltTypes", "AuthAltParameters",
    "StateSaveLocation", "SlurmctldPidFile",
    "SlurmctldLogFile", "SlurmctldDebug", "SlurmUser", "AccountingStoragePort", "PrivateData",
    "AccountingStorageType",
)  # fmt: skip


class BadOptions(Exception):
    """The command line or the configuration is wrong; `lines` are the errors."""

    def __init__(self, *lines: str) -> None:
        super().__init__(lines[0])
        self.lines = lines


@dataclass(slots=True)
class Options:
    """The command line."""

    foreground: bool = False
    conf_path: str = ""
    nice: int = 0
    change_directory: bool = False
    show_schema: bool = False
    show_version: bool = False
    show_help: bool = False
    verbose: int = 0


@dataclass(frozen=True, slots=True)
class Configuration:
    """Every setting of the daemon.

    `pass_script` prints the database's password. `address` of None listens everywhere; `pairs` are
    slurmdbd.conf's values as `sacctmgr show configuration` prints them. With DbdBackupHost there
    are two slurmdbds (`has_backup`), and this may be the second (`is_backup`).
    """

    url: sa.URL
    port: int
    address: str | None
    pid_file: str
    log_file: str
    log_level: int
    log_time_format: str
    user: str
    auth_type: str
    auth_info: str
    alt_auth: AltAuth
    key_path: str
    cluster: str
    private: frozenset[str]
    warnings: tuple[str, ...]
    syslog_debug: str = ""
    pass_script: str = ""
    backup_database_host: str = ""
    primary_host: str = ""
    has_backup: bool = False
    is_backup: bool = False
    rolls_up: bool = True
    has_coordinators: bool = True
    most_range_s: int = INFINITE
    keeps_users: bool = False
    new_cluster_qos: str = "normal"
    pairs: tuple[tuple[str, str], ...] = field(default=())
    purge: Policy = field(default_factory=Policy)


def parse_options(argv: list[str]) -> Options:
    """Return the command line's options.

    Raises:
        BadOptions: with the line to print.
    """
    options = Options()
    try:
        pairs, rest = getopt.getopt(argv, "Df:hn:R:suvV", ["version", "help", "systemd"])
    except getopt.GetoptError as error:
        raise BadOptions(f"{complaint(error)}; see slurmdbd -h") from None
    if rest:
        raise BadOptions(f"unexpected argument {rest[0]}; see slurmdbd -h")
    for name, value in pairs:
        if name in ("-D", "--systemd"):
            options.foreground = True
        elif name == "-f":
            options.conf_path = value
        elif name == "-n":
            try:
                options.nice = int(value)
            except ValueError:
                raise BadOptions(f"Invalid option for -n option (nice value): {value}") from None
        elif name == "-s":
            options.change_directory = True
        elif name == "-u":
            options.show_schema = True
        elif name == "-v":
            options.verbose += 1
        elif name in ("-V", "--version"):
            options.show_version = True
        elif name in ("-h", "--help"):
            options.show_help = True
        else:
            raise BadOptions(f"option {name} is not implemented yet")
    return options


def load_configuration(options: Options) -> Configuration:
    """Read slurmdbd.conf, or use the embedded form if there is none.

    Raises:
        BadOptions: a file cannot be read or holds errors; each error is a line.
    """
    slurm_conf = find_conf()
    path = options.conf_path or os.path.join(os.path.dirname(slurm_conf), "slurmdbd.conf")
    try:
        shared = quick(slurm_conf, _SLURM_CONF_KEYS)
    except OSError as error:
        if not os.path.exists(path):
            raise BadOptions(f"Unable to open configuration: {slurm_conf}: {error.strerror}"
                             ) from None  # fmt: skip
        shared = {}
    key_path = os.path.join(os.path.dirname(slurm_conf), "slurm.key")
    cluster = shared.get("ClusterName", "cluster").lower()
    if not os.path.exists(path):
        if options.conf_path:
            raise BadOptions(f"slurmdbd.conf file {path}: No such file or directory")
        return _embedded(shared, key_path, cluster)
    try:
        conf = load_slurmdbd_conf(path)
    except ConfErrors as errors:
        raise BadOptions(*[str(error) for error in errors.errors]) from None
    return _configured(conf, shared, key_path, cluster, path)


def _embedded(shared: dict[str, str], key_path: str, cluster: str) -> Configuration:
    state = shared.get("StateSaveLocation", "/var/spool")
    log_file = shared.get("SlurmctldLogFile", "")
    pid_file = shared.get("SlurmctldPidFile", "/var/run/slurmctld.pid")
    beside = os.path.dirname
    return Configuration(
        url=sqlite_url(os.path.join(state, "slurmdbd.sqlite")),
        port=int(shared.get("AccountingStoragePort", "6819")),
        address=None,
        pid_file=os.path.join(beside(pid_file), "slurmdbd.pid"),
        log_file=os.path.join(beside(log_file), "slurmdbd.log") if log_file else "",
        log_level=level_number(shared.get("SlurmctldDebug", "info")),
        log_time_format="iso8601_ms",
        user=shared.get("SlurmUser", "root"),
        auth_type=shared.get("AuthType", "auth/munge"),
        auth_info=shared.get("AuthInfo", ""),
        alt_auth=AltAuth(
            _list(shared.get("AuthAltTypes", "")), _list(shared.get("AuthAltParameters", "")), state
        ),
        key_path=key_path,
        cluster=cluster,
        private=frozenset(shared.get("PrivateData", "").lower().split(",")) - {"", "none"},
        warnings=(),
    )


def _list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _configured(
    conf: SlurmdbdConf, shared: dict[str, str], key_path: str, cluster: str, path: str
) -> Configuration:
    is_backup = _is_backup(conf, path)
    _check_archive(conf, path)
    url = _database_url(conf, shared, path)
    is_open = "noinaddrany" not in [word.lower() for word in conf.communication_parameters]
    address = None if is_open else conf.dbd_backup_host if is_backup else conf.dbd_addr
    return Configuration(
        url=url,
        port=conf.dbd_port,
        address=address,
        pid_file=conf.pid_file,
        log_file=conf.log_file,
        log_level=level_number(conf.debug_level),
        log_time_format=next(iter(conf.log_time_format), "iso8601_ms"),
        user=conf.slurm_user,
        auth_type=conf.auth_type,
        auth_info=",".join(conf.auth_info),
        alt_auth=AltAuth(conf.auth_alt_types, conf.auth_alt_parameters),
        key_path=key_path,
        cluster=cluster,
        private=frozenset(word.lower() for word in conf.private_data) - {"none", ""},
        warnings=conf.warnings,
        syslog_debug=conf.debug_level_syslog,
        pass_script=conf.storage_pass_script,
        backup_database_host=conf.storage_backup_host,
        primary_host=conf.dbd_host,
        has_backup=bool(conf.dbd_backup_host),
        is_backup=is_backup,
        rolls_up=not conf.disable_rollups,
        has_coordinators=not conf.disable_coord_dbd,
        most_range_s=conf.max_query_time_range,
        keeps_users=bool({"PreserveCaseAll", "PreserveCaseUser"} & set(conf.parameters)),
        new_cluster_qos=_new_cluster_qos(conf.default_qos, path),
        pairs=tuple(_pairs(conf, path)),
        purge=policy_of(conf),
    )


_TAKEN_LATER = re.compile(
    "Archive|Purge|MaxPurgeLimit$|PrivateData$|MaxQueryTimeRange$|DebugLevel|Log"
)
"""Keys that a running slurmdbd takes up."""


def reconfigured(old: Configuration, new: Configuration) -> tuple[Configuration, list[str]]:
    """Return what a running daemon takes of a new file, and the other keys that changed."""
    before = dict(old.pairs)
    pairs = tuple(
        (key, value if _TAKEN_LATER.match(key) else before.get(key, value))
        for key, value in new.pairs
    )
    waiting = [key for (key, value), kept in zip(new.pairs, pairs, strict=True) if kept[1] != value]
    conf = replace(
        old,
        log_file=new.log_file,
        log_level=new.log_level,
        log_time_format=new.log_time_format,
        syslog_debug=new.syslog_debug,
        private=new.private,
        most_range_s=new.most_range_s,
        purge=new.purge,
        pairs=pairs,
    )
    return conf, waiting


def _new_cluster_qos(text: str, path: str) -> str:
    """Return the QOS that clusters begin with.

    Raises:
        BadOptions: a name that no QOS may have.
    """
    for name in filter(None, text.split(",")):
        try:
            check_name(name)
        except RefusedError as refused:
            raise BadOptions(f"{path}: DefaultQOS:{refused.lines[0]}") from None
    return text or "normal"


def _check_archive(conf: SlurmdbdConf, path: str) -> None:
    """Raise BadOptions where what records are archived by is missing, as Slurm does at start."""
    for key, name in (("ArchiveDir", conf.archive_dir), ("ArchiveScript", conf.archive_script)):
        if key in conf.given and name and not os.path.exists(name):
            raise BadOptions(f"{path}: {key}: {name}: No such file or directory")


def _is_backup(conf: SlurmdbdConf, path: str) -> bool:
    """Return whether this host is DbdBackupHost.

    Raises:
        BadOptions: it is neither that nor DbdHost, or the database is a file of one host.
    """
    full = os.uname().nodename
    short = full.partition(".")[0]
    if conf.dbd_backup_host and conf.storage_type.endswith("/sqlite"):
        raise BadOptions(
            f"{path}: DbdBackupHost: a second slurmdbd needs accounting_storage/mysql, since "
            "sqlite is a file of one host"
        )
    if conf.dbd_host in (full, short, "localhost"):
        return False
    if conf.dbd_backup_host in (full, short, "localhost"):
        return True
    hosts = " or ".join(filter(None, (conf.dbd_host, conf.dbd_backup_host)))
    raise BadOptions(
        f"{path}: DbdHost: This host not configured to run SlurmDBD "
        f"(({short} or {full}) != {hosts})"
    )


def _database_url(conf: SlurmdbdConf, shared: dict[str, str], path: str) -> sa.URL:
    """Return where accounting is kept.

    Raises:
        BadOptions: no such kind of database, or no place for its file.
    """
    kind = conf.storage_type.rpartition("/")[2]
    if kind == "sqlite":
        location = conf.storage_loc
        if not os.path.isabs(location):
            # "StorageLoc" names a database for the servers; a file needs a directory.
            state = shared.get("StateSaveLocation", "")
            if not state:
                raise BadOptions(f"{path}: StorageLoc: an absolute path is needed for sqlite")
            location = os.path.join(state, "slurmdbd.sqlite")
        return sqlite_url(location)
    if kind != "mysql":
        raise BadOptions(
            f"{path}: StorageType: accounting_storage/mysql and accounting_storage/sqlite are "
            "allowed"
        )
    words = (word.partition("=") for word in conf.storage_parameters)
    settings = {name.strip().lower(): value.strip() for name, _, value in words}
    return mysql_url(
        conf.storage_host,
        conf.storage_port,
        conf.storage_user,
        conf.storage_pass or None,
        conf.storage_loc,
        settings.pop("socket", None),
        settings,
    )


_SECRET = frozenset(("storage_pass", "storage_pass_script"))


_LISTED_AFTER = {
    "ArchiveJobEnv": "ArchiveJobScript1",
    "AuthAltParameters": "AuthAltTypes1",
    "DisableArchiveCommands": "DisableCoordDBD1",
    "PurgeJobScriptAfter": "PurgeUsageAfter1",
    "PurgeJobEnvAfter": "PurgeUsageAfter2",
    "SLURMDBD_CONF": "Sa",
    "SLURMDBD_VERSION": "Sb",
    "TrackSlurmctldDown": "TrackWCKey1",
}
"""Keys that Slurm lists behind another one instead of in alphabetical order."""
_SHOWN = {
    ("MaxQueryTimeRange", str(INFINITE)): "UNLIMITED",
    ("PrivateData", "(null)"): "none",
    ("TLSType", "(null)"): "tls/none",
    ("CommitDelay", "0 secs"): "0",
}
"""Values that Slurm words in its own way."""


def _pairs(conf: SlurmdbdConf, path: str) -> list[tuple[str, str]]:
    """Return keys and values as Slurm lists them, without secrets."""
    from pyslurm_ng import __version__
    from pyslurm_ng.conf.tables.keys import SLURMDBD

    pairs = [("SLURMDBD_CONF", path), ("SLURMDBD_VERSION", __version__)]
    for key in SLURMDBD:
        if key.attribute in _SECRET:
            continue
        shown = _show(getattr(conf, key.attribute, None), key.kind)
        pairs.append((key.name, _SHOWN.get((key.name, shown), shown)))
    return sorted(pairs, key=lambda pair: _LISTED_AFTER.get(pair[0], pair[0]).lower())


def _show(value: object, kind: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        if len(value) == 2 and isinstance(value[0], int):
            return f"{value[0]}{value[1]}" if value[0] else "NONE"
        return ",".join(str(element) for element in value) or "(null)"
    if value is None or value == "":
        return "(null)"
    if kind == "seconds":
        return f"{value} secs"
    if kind == "duration" and isinstance(value, int) and value != INFINITE:
        return format_seconds(value)
    return str(value)
