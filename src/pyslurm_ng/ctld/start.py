"""How slurmctld begins: options, log, places, rights, keys and the state that the journal holds."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.units import plural
from pyslurm_ng.ctld.configuration import Configuration
from pyslurm_ng.ctld.recover import recover_cluster
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.daemon import background as bg
from pyslurm_ng.daemon.log import INFO, QUIET, DaemonLog, level_number
from pyslurm_ng.journal.recovery import Layout, Recovery
from pyslurm_ng.journal.segment import JournalError
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire.auth import AuthError
from pyslurm_ng.wire.auth_slurm import KeyFileError
from pyslurm_ng.wire.daemon_link import DEFAULT_RUN_DIRECTORY, run_directory
from pyslurm_ng.wire.identity import AltAuth, Identity, load_identity, with_tokens


class CannotStart(Exception):
    """The controller cannot run; the text is Slurm's `fatal:` line."""


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of slurmctld."""

    conf_path: str
    foreground: bool = False
    clear: bool = False
    ignore_errors: bool = False
    log_path: str = ""
    verbose: int = 0
    quiet: int = 0


@dataclass(slots=True)
class Beginning:
    """What a controller begins with: its keys, and the state as the last one left it.

    `replayed` is how many events followed the newest checkpoint.
    """

    host: str
    faults: Faults
    layout: Layout
    identity: Identity
    recovery: Recovery
    scripts: ScriptStore
    cluster: Cluster
    replayed: int


def open_log(log: DaemonLog, options: Options, configuration: Configuration) -> None:
    """Open the log that the configuration and the command line name, with their level.

    Raises:
        CannotStart: the log file cannot be opened.
    """
    conf = configuration.conf
    level = max(1, level_number(conf.slurmctld_debug) + options.verbose - options.quiet)
    path = options.log_path or conf.slurmctld_log_file
    form = conf.log_time_format[0] if conf.log_time_format else "iso8601_ms"
    syslog = conf.slurmctld_syslog_debug
    try:
        log.begin(level, path, form, syslog, foreground=options.foreground)
        if path and os.geteuid() == 0:
            os.chown(path, configuration.service_uid, -1)
    except OSError as error:
        raise CannotStart(f"Unable to open logfile `{path}': {error.strerror}") from None


def open_scheduling_log(configuration: Configuration) -> DaemonLog:
    """Return the log of what the scheduler does; it takes nothing unless SlurmSchedLogLevel is 1.

    Raises:
        CannotStart: the log file cannot be opened.
    """
    conf = configuration.conf
    log = DaemonLog("sched")
    log.stderr_level = QUIET
    path = conf.slurm_sched_log_file
    if path and conf.slurm_sched_log_level:
        try:
            log.open(path, INFO, conf.log_time_format[0] if conf.log_time_format else "iso8601_ms")
        except OSError as error:
            raise CannotStart(f"Unable to open logfile `{path}': {error.strerror}") from None
    return log


def make_places(configuration: Configuration) -> None:
    """Make directories while we may still be root."""
    conf, uid = configuration.conf, configuration.service_uid
    for directory in (run_directory(conf.slurmctld_pid_file), conf.state_save_location):
        is_ours = directory == DEFAULT_RUN_DIRECTORY or bg.is_of_this_unit(directory)
        try:
            bg.make_directory(directory, uid, take=is_ours)
        except OSError as error:
            raise CannotStart(f"mkdir({directory}): {error.strerror}") from None


def write_pid_file(configuration: Configuration, log: DaemonLog) -> bg.PidFile | None:
    """Write the pid file, once it is certain that no other controller runs."""
    conf, uid = configuration.conf, configuration.service_uid
    try:
        return bg.PidFile(conf.slurmctld_pid_file, uid if os.geteuid() == 0 else -1)
    except OSError as error:
        log.error(f"Unable to open pidfile `{conf.slurmctld_pid_file}': {error.strerror}")
        return None


def prepare(configuration: Configuration, options: Options, log: DaemonLog, host: str) -> Beginning:
    """Drop root's rights, then read keys and state as SlurmUser.

    Raises:
        CannotStart: no such user, no rights, no key, or damage in the journal.
    """
    layout = Layout(Path(configuration.conf.state_save_location))
    faults = Faults(log)
    try:
        bg.become_user(configuration.conf.slurm_user)
        os.umask(0o022)
        identity = _load_identity(configuration, layout, host, faults)
        if not os.access(layout.state, os.W_OK | os.X_OK):
            raise CannotStart(f"Incorrect permissions on state save loc: {layout.state}")
        layout.create()
        return _recover(layout, identity, options, log, host, faults)
    except (bg.CannotBecome, KeyFileError, AuthError, JournalError) as error:
        raise CannotStart(str(error)) from None
    except OSError as error:
        raise CannotStart(f"{error.filename or layout.state}: {error.strerror}") from None


def _load_identity(
    configuration: Configuration, layout: Layout, host: str, faults: Faults
) -> Identity:
    conf = configuration.conf
    hosts = frozenset(
        name
        for controller in conf.slurmctld_host
        for name in (controller.name, controller.address)
        if name
    )
    identity = load_identity(
        role="slurmctld",
        name=host,
        auth_type=conf.auth_type,
        auth_info=",".join(conf.auth_info),
        key_path=os.path.join(configuration.directory, "slurm.key"),
        cluster=conf.cluster_name,
        host=host,
        service_uid=configuration.service_uid,
        clock_us=lambda: time.time_ns() // 1000,
        admin_hosts=hosts | {host},
        replay_path=str(layout.state / "replay"),
        faults=faults,
    )
    return with_tokens(
        identity,
        AltAuth(conf.auth_alt_types, conf.auth_alt_parameters, conf.state_save_location),
        cluster=conf.cluster_name,
        service_uid=configuration.service_uid,
        clock_us=lambda: time.time_ns() // 1000,
    )


def _recover(
    layout: Layout,
    identity: Identity,
    options: Options,
    log: DaemonLog,
    host: str,
    faults: Faults,
) -> Beginning:
    begin = time.monotonic()
    scripts = ScriptStore(layout.state / "scripts")
    recovery = Recovery(layout, ignore_errors=options.ignore_errors)
    cluster, count = recover_cluster(recovery, scripts)
    # It may have been raised above the journal's, see `ctld.history`.
    recovery.next_epoch = max(recovery.next_epoch, cluster.epoch + 1)
    # Its bytes are as large as the cluster, and applied now.
    recovery.checkpoint = None
    for note in recovery.notes:
        log.error(note)
    if not count and (layout.state / "job_state").exists():
        log.error(f"StateSaveLocation {layout.state} has state of Slurm, too: no job of it is read")
    for digest in scripts.begin(cluster):
        log.error(f"script or environment {digest} of a job is missing")
    log.info(
        f"Recovered state of {plural(len(cluster.jobs), 'job')}, "
        f"{plural(len(cluster.living_nodes()), 'node')}, "
        f"{plural(len(cluster.reservations), 'reservation')} "
        f"({plural(count, 'event')} in {time.monotonic() - begin:.2f} s)"
    )
    return Beginning(host, faults, layout, identity, recovery, scripts, cluster, replayed=count)
