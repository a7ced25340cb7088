"""slurmrestd's life: its user, its sockets, its application."""

from __future__ import annotations

import grp
import logging
import os
import pwd
import sys

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import NO_UID
from pyslurm_ng.daemon.background import tell_systemd
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.daemon.process_settings import raise_open_files, share_memory
from pyslurm_ng.web.app import Service, build_app
from pyslurm_ng.web.daemons import Daemons
from pyslurm_ng.web.events import endpoint as events
from pyslurm_ng.web.events.feeds import Feeds
from pyslurm_ng.web.events.webhooks import Webhooks, read_webhooks
from pyslurm_ng.web.listening import is_connection, is_pipe_or_file, listeners
from pyslurm_ng.web.openapi import description
from pyslurm_ng.web.options import BadOptions, Options
from pyslurm_ng.web.own_pages import OwnPages
from pyslurm_ng.web.page.routes import routes
from pyslurm_ng.web.protocol import open_connections
from pyslurm_ng.web.proxy_login import ProxyLogin, proxies_of
from pyslurm_ng.web.rooms import Rooms
from pyslurm_ng.web.server import configuration, serve, serve_input

SWITCH_S = 0.0005
MEMORY_ARENAS = 4


def run(options: Options, log: DaemonLog) -> int:
    """Serve; return the exit code.

    Raises:
        BadOptions: the user, slurm.conf, an address or a certificate cannot be had.
    """
    if options.prints_openapi:
        sys.stdout.buffer.write(description(options.versions, options.tags) + b"\n")
        return 0
    is_inetd = not options.addresses and (is_connection(0) or is_pipe_or_file(0))
    if not options.addresses and not is_inetd:
        raise BadOptions("no address to listen on: HOST:PORT or unix:PATH")
    try:
        daemons = Daemons.of_file()
    except OSError as error:
        raise BadOptions(f"slurm.conf: {error.strerror}") from None
    proxy = ProxyLogin.of(options, daemons.conf.get("SlurmUser", "root"))
    hooks = read_webhooks(options.webhooks) if options.webhooks else []
    raise_open_files()
    share_memory(MEMORY_ARENAS)
    # Else each step of the loop waits for every thread that lays out a list, five ms each.
    sys.setswitchinterval(SWITCH_S)
    sockets = listeners(options.addresses)
    _become(options)
    if options.checks_user and not is_inetd:
        _check_user(daemons)
    faults = Faults(log)
    _log_to(faults)
    service = Service(
        daemons, options.kinds, options.versions, options.tags, faults, rooms=Rooms(options.threads)
    )
    service.proxy, service.proxies = proxy, proxies_of(options)
    feeds = Feeds(daemons, faults)
    webhooks = Webhooks(hooks, feeds, daemons.cluster, log.error) if hooks else None
    more = [
        *events.routes(service, feeds, options.most_connections),
        *OwnPages(service, feeds, webhooks, open_connections).routes(),
    ]
    app = build_app(service, [*more, *(routes(service) if options.has_pages else [])])
    config = configuration(app, options)
    if is_inetd:
        serve_input(config)
        return 0
    for address in options.addresses:
        log.info(f"listening on {address}")
    tell_systemd("READY=1")
    serve(config, sockets, feeds, webhooks)
    return 0


class _FaultHandler(logging.Handler):
    """Counts what uvicorn reports: an answer that broke off in the middle, for instance."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(logging.ERROR)
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        """Count one error."""
        error = record.exc_info[1] if record.exc_info else None
        self._faults.note("http", record.getMessage()[:200], error)


def _log_to(faults: Faults) -> None:
    logger = logging.getLogger("uvicorn.error")
    logger.propagate = False
    logger.addHandler(_FaultHandler(faults))


def _become(options: Options) -> None:
    """Become the user and group of -u and -g.

    Raises:
        BadOptions: they are not known, or this process may not.
    """
    try:
        group = _group_id(options.group) if options.group else -1
        name, uid, own_group = _person(options.user) if options.user else ("", -1, -1)
        if group < 0:
            group = own_group
        if group >= 0:
            os.setgroups([])
            os.setgid(group)
        if uid >= 0:
            if name and not options.group:
                os.initgroups(name, group)
            os.setuid(uid)
    except PermissionError:
        raise BadOptions("-u and -g need root's rights") from None


def _person(text: str) -> tuple[str, int, int]:
    """Return name, user id and group id; a number needs no account, and has no name then."""
    try:
        person = pwd.getpwuid(int(text)) if text.isdecimal() else pwd.getpwnam(text)
    except (KeyError, OverflowError):
        if text.isdecimal() and 0 < int(text) < NO_UID:
            return "", int(text), int(text)
        raise BadOptions(f"-u {text}: no such user") from None
    return person.pw_name, person.pw_uid, person.pw_gid


def _group_id(text: str) -> int:
    try:
        return int(text) if text.isdecimal() else grp.getgrnam(text).gr_gid
    except KeyError:
        raise BadOptions(f"-g {text}: no such group") from None


def _check_user(daemons: Daemons) -> None:
    """Refuse to run with an administrator's rights: an intruder would have them.

    Raises:
        BadOptions: this is root or SlurmUser.
    """
    own = os.geteuid()
    service = daemons.conf.get("SlurmUser", "root")
    try:
        service_uid = int(service) if service.isdecimal() else pwd.getpwnam(service).pw_uid
    except KeyError:
        service_uid = 0
    if own in (0, service_uid):
        name = "root" if own == 0 else "SlurmUser"
        raise BadOptions(
            f"slurmrestd should not run as {name}; use -u USER "
            "(SLURMRESTD_SECURITY=disable_user_check allows it)"
        )
