"""slurmdbd's life: configuration, database, background, sockets, signals, end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import socket
import time
from pathlib import Path

import sqlalchemy as sa

from pyslurm_ng import __version__
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.daemon.background import (
    Background,
    CannotBecome,
    PidFile,
    become_user,
    is_of_this_unit,
    make_directory,
    tell_systemd,
)
from pyslurm_ng.daemon.log import ERROR, INFO, QUIET, DaemonLog, syslog_level
from pyslurm_ng.daemon.metrics_text import family
from pyslurm_ng.daemon.process_settings import ignore_signals, raise_open_files, settle_memory
from pyslurm_ng.dbd.database import Database, NewerStoreError, is_retryable
from pyslurm_ng.dbd.migrations import LATEST
from pyslurm_ng.dbd.options import (
    BadOptions,
    Configuration,
    Options,
    load_configuration,
    reconfigured,
)
from pyslurm_ng.dbd.pass_script import obstacle
from pyslurm_ng.dbd.private_connection import check_tls, is_refused_by_tls
from pyslurm_ng.dbd.rollup.duty import RollUp
from pyslurm_ng.dbd.service import Service, Settings
from pyslurm_ng.dbd.term import Term
from pyslurm_ng.wire.auth import AuthError
from pyslurm_ng.wire.auth_slurm import KeyFileError
from pyslurm_ng.wire.daemon_link import DEFAULT_RUN_DIRECTORY, run_directory, socket_file
from pyslurm_ng.wire.daemon_pages import DaemonPages, server_lines
from pyslurm_ng.wire.identity import Identity, load_identity, with_tokens
from pyslurm_ng.wire.stream import StreamServer

OPEN_PATIENCE_S = 30
"""How long the start waits for a database server that is itself starting."""


class CannotStart(Exception):
    """The daemon cannot run; the text is what follows `fatal: `."""


class Daemon:
    """One slurmdbd process."""

    def __init__(self, options: Options, configuration: Configuration, log: DaemonLog) -> None:
        self._options = options
        self._conf = configuration
        self._log = log
        self._host = os.uname().nodename.partition(".")[0]
        self._stop: asyncio.Event | None = None
        self._service: Service | None = None

    def run(self) -> int:
        """Run until told to stop; return the exit code.

        Raises:
            CannotStart: the user, a file, the database or a socket cannot be had.
        """
        conf = self._conf
        # Before the pid file, which is the other daemon's.
        self._refuse_second()
        raise_open_files()
        background = Background(foreground=self._options.foreground)
        # systemd and init scripts read the pid file as root made it; then rights are dropped.
        try:
            user = pwd.getpwnam(conf.user) if not conf.user.isdecimal() else None
            directory = run_directory(conf.pid_file)
            is_ours = directory == DEFAULT_RUN_DIRECTORY or is_of_this_unit(directory)
            make_directory(directory, user.pw_uid if user else -1, take=is_ours)
            pid_file = PidFile(conf.pid_file, user.pw_uid if user else -1,
                               user.pw_gid if user else -1)  # fmt: skip
            become_user(conf.user)
        except KeyError:
            raise CannotStart(f"Invalid user for SlurmUser {conf.user}") from None
        except OSError as error:
            raise CannotStart(f"Unable to open pidfile {conf.pid_file}: {error.strerror}") from None
        except CannotBecome as error:
            raise CannotStart(str(error)) from None
        try:
            self._open_log(self._conf)
            self._settle()
            os.umask(0o077)
            # Accounting holds job names and command lines, and this process a password.
            self._log.info(f"slurmdbd version {__version__} started")
            database = database_of(self._conf)
            with contextlib.closing(database):
                asyncio.run(self._live(database, background))
        finally:
            pid_file.remove()
        return 0

    def _refuse_second(self) -> None:
        path = socket_file("slurmdbd", self._conf.pid_file, self._conf.port)
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except OSError:
                return
        raise CannotStart(f"another slurmdbd answers on {path}")

    def _open_log(self, conf: Configuration) -> None:
        """Write the log as `conf` says; if its file cannot be opened, it stays as it was."""
        level = min(conf.log_level + self._options.verbose, 9)
        has_file = bool(conf.log_file)
        if has_file:
            try:
                self._log.open(conf.log_file, level, conf.log_time_format)
            except OSError as error:
                raise CannotStart(
                    f"Unable to open log file {conf.log_file}: {error.strerror}"
                ) from None
        # In the background only what prevents the start is for the terminal; see _serve.
        foreground = self._options.foreground
        self._log.stderr_level = max(INFO, level) if foreground or not has_file else ERROR
        self._log.syslog_level = syslog_level(
            conf.syslog_debug, level, has_file=has_file, foreground=foreground
        )
        for warning in conf.warnings:
            self._log.info(warning)

    def _settle(self) -> None:
        """Go where a core may be written, and take the niceness of -n."""
        if self._options.change_directory:
            log_file = self._conf.log_file
            os.chdir(os.path.dirname(log_file) if log_file else "/var/tmp")
        if self._options.nice:
            os.nice(self._options.nice)

    def _open_database(self, database: Database) -> None:
        shown = self._conf.url.render_as_string(hide_password=True)
        script = self._conf.pass_script
        if script and self._conf.url.get_backend_name() != "sqlite" and (why := obstacle(script)):
            raise CannotStart(f"accounting database {shown}: {why}")
        give_up_s = time.monotonic() + OPEN_PATIENCE_S
        said = ""
        while True:
            try:
                check_tls(self._conf.url.query)
                database.open()
                is_slurms_too = database.has_tables_of_slurm()
            except NewerStoreError as error:
                raise CannotStart(str(error)) from None
            except OSError as error:
                file = f"StorageParameters: {error.filename}: " if error.filename else ""
                raise CannotStart(f"accounting database {shown}: {file}{error.strerror}") from None
            except sa.exc.SQLAlchemyError as error:
                text = " ".join(str(getattr(error, "orig", None) or error).split())
                is_lasting = is_refused_by_tls(error) or not is_retryable(error)
                if is_lasting or time.monotonic() > give_up_s:
                    raise CannotStart(f"accounting database {shown}: {text}") from None
                if text != said:  # it is tried again each second
                    self._log.error(f"accounting database {shown}: {text}")
                said = text
                time.sleep(1)
            else:
                self._log.info(f"accounting database {shown}, schema {LATEST}")
                if is_slurms_too:
                    self._log.error(
                        f"accounting database {shown} has tables of Slurm, too; they stay as they"
                        " are, and their jobs, accounts and usage are not read"
                    )
                return

    def _identity(self) -> Identity:
        conf = self._conf
        # The name has no port: who starts clusters at other ports each time leaves one file.
        pid_file = Path(conf.pid_file)
        try:
            identity = load_identity(
                role="slurmdbd",
                name=self._host,
                auth_type=conf.auth_type,
                auth_info=conf.auth_info,
                key_path=conf.key_path,
                cluster=conf.cluster,
                host=self._host,
                service_uid=os.geteuid(),
                clock_us=lambda: time.time_ns() // 1000,
                replay_path=f"{run_directory(conf.pid_file)}/{pid_file.stem}.replay",
                faults=Faults(self._log),
                serves_all=True,
            )
            return with_tokens(
                identity,
                conf.alt_auth,
                cluster=conf.cluster,
                service_uid=os.geteuid(),
                clock_us=lambda: time.time_ns() // 1000,
            )
        except (KeyFileError, AuthError) as error:
            raise CannotStart(str(error)) from None
        except OSError as error:
            raise CannotStart(f"{error.filename}: {error.strerror}") from None

    async def _live(self, database: Database, background: Background) -> None:
        """Serve until told to stop; with a second slurmdbd, only while it is this one's turn."""
        conf = self._conf
        loop = asyncio.get_running_loop()
        stop = self._stop = asyncio.Event()
        loop.set_exception_handler(self._report)
        if not conf.has_backup:
            self._open_database(database)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reconfigure)
        loop.add_signal_handler(signal.SIGUSR2, self._log.reopen)
        ignore_signals(loop)
        if not conf.has_backup:
            await self._serve(database, background, stop)
            return
        term = Term(database, self._host, self._log.error)
        while not stop.is_set():
            if conf.is_backup:
                self._log.info("slurmdbd running in background mode")
                self._tell_ready(background)
                if not await term.await_turn(stop):
                    return
                self._log.error(f"slurmdbd on {conf.primary_host} is silent: taking over")
            await loop.run_in_executor(None, self._open_database, database)
            await loop.run_in_executor(None, term.take)
            await self._serve_term(database, background, term, stop)

    async def _serve_term(
        self, database: Database, background: Background, term: Term, stop: asyncio.Event
    ) -> None:
        """Serve until told to stop, or until the other slurmdbd does."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        tasks = [loop.create_task(term.keep()), loop.create_task(stop.wait())]
        for task in tasks:
            task.add_done_callback(lambda _: over.set())
        try:
            await self._serve(database, background, over)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _tell_ready(self, background: Background) -> None:
        if not self._options.foreground:
            self._log.stderr_level = QUIET
        background.ready()
        tell_systemd("READY=1")

    async def _serve(self, database: Database, background: Background, over: asyncio.Event) -> None:
        """Answer requests until `over` is set."""
        conf = self._conf
        loop = asyncio.get_running_loop()
        assert self._stop is not None
        identity = self._identity()
        service = self._service = Service(
            database,
            self._settings(),
            self._log,
            on_shutdown=self._stop.set,
            on_reconfigure=self._reconfigure,
        )
        roll_up = RollUp(
            database,
            service.writer.run,
            service.faults,
            lambda: int(time.time()),
            service.counts.roll_ups,
        )
        server = StreamServer(
            service.handle,
            audience="slurmdbd",
            host=self._host,
            service_uid=os.geteuid(),
            authenticator=identity.authenticator,
            faults=service.faults,
            http=lambda request, answer: pages.respond(request, answer),
        )
        pages = pages_of(server, service)
        path = socket_file("slurmdbd", conf.pid_file, conf.port)
        try:
            try:
                await server.listen_unix(path)
            except OSError as error:
                raise CannotStart(f"cannot listen on {path}: {error.strerror or error}") from None
            try:
                await server.listen_tcp(conf.address, conf.port)
            except OSError as error:
                raise CannotStart(
                    f"cannot listen on port {conf.port}: {error.strerror or error}"
                ) from None
            settle_memory()
            if conf.rolls_up:
                roll_up.thread.start()
            service.purge.thread.start()
            self._tell_ready(background)
            await over.wait()
            if self._stop.is_set():
                self._log.info("Terminate signal (SIGINT or SIGTERM) received")
                tell_systemd("STOPPING=1")
        finally:
            await server.close()
            # Waits for the transaction under way; what it acknowledged is committed.
            roll_up.thread.close()
            await loop.run_in_executor(None, service.close)
            roll_up.thread.join()

    def _reconfigure(self) -> None:
        """Take what can be taken while the daemon runs, and name what needs a restart."""
        try:
            new = load_configuration(self._options)
            conf, waiting = reconfigured(self._conf, new)
            self._open_log(conf)
        except (BadOptions, CannotStart) as error:
            self._log.error(f"reconfigure: {error}; the old configuration stays")
            return
        self._conf = conf
        self._log.info("Reconfigure signal (SIGHUP) received")
        if waiting:
            self._log.error(f"reconfigure: {', '.join(waiting)}: a restart is needed for that")
        if self._service is not None:
            self._service.settings = self._settings()
            self._service.purge.policy = self._conf.purge

    def _settings(self) -> Settings:
        conf = self._conf
        return Settings(
            self._host,
            os.geteuid(),
            conf.private,
            conf.pairs,
            conf.purge,
            has_coordinators=conf.has_coordinators,
            most_range_s=conf.most_range_s,
        )

    def _report(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self._log.error(f"{context.get('message')}: {context.get('exception')!r}")


def pages_of(server: StreamServer, service: Service) -> DaemonPages:
    """Return health and metrics of slurmdbd; with PrivateData they are for its own user and root.

    It is ready as soon as it listens: one that waits for its term does not.
    """

    def lines() -> list[str]:
        faults = service.faults.counts
        made = family("pyslurm_dbd_records_total", "Events that were stored",
                      [("", service.records)], kind="counter")  # fmt: skip
        made += family("pyslurm_dbd_retries_total", "Transactions that were tried again",
                       [("", service.retries)], kind="counter")  # fmt: skip
        counts, refusals, requests = server.counts(), server.refusals, server.requests
        return made + server_lines("pyslurm_dbd", counts, refusals, requests, faults)

    return DaemonPages(
        lines,
        why_not_ready=lambda: "",
        is_on=lambda: True,
        is_private=lambda: bool(service.settings.private),
        privileged=(0, os.geteuid()),
    )


def database_of(conf: Configuration) -> Database:
    """Return the database of a configuration, not yet open."""
    database = Database(conf.url, conf.pass_script, conf.backup_database_host)
    database.new_cluster_qos = conf.new_cluster_qos
    database.keeps_users = conf.keeps_users
    return database


def print_schema(configuration: Configuration) -> int:
    """`slurmdbd -u`: say which schema the database has and which this program wants."""
    database = database_of(configuration)
    try:
        with database.read() as connection:
            version = database.schema_version(connection)
    except sa.exc.SQLAlchemyError as error:
        text = " ".join(str(getattr(error, "orig", None) or error).split())
        raise CannotStart(f"accounting database: {text}") from None
    finally:
        database.close()
    print(f"Schema version of the database: {version}")
    print(f"Schema version of this slurmdbd: {LATEST}")
    return 0
