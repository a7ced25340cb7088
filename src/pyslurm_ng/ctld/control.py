"""What administrators ask of the daemon itself: shutdown, reconfigure, setdebug."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

from pyslurm_ng.base.error_texts import error_text
from pyslurm_ng.base.errors import Errno
from pyslurm_ng.ctld.configuration import BadConfiguration, load_configuration
from pyslurm_ng.ctld.controller_parts import ControllerParts
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.start import Options
from pyslurm_ng.daemon import background as bg
from pyslurm_ng.daemon.log import FATAL, INFO, LEVELS, DaemonLog
from pyslurm_ng.wire.messages import Done, Shutdown
from pyslurm_ng.wire.query_messages import (
    SetDampening,
    SetDebugFlags,
    SetDebugLevel,
    SetSchedulingLog,
)
from pyslurm_ng.wire.stream import Call

# The answer to the request that asked for it leaves first.
_SHUTDOWN_S = 0.01
_FIXED = (
    "cluster_name", "slurmctld_port", "state_save_location", "auth_type", "slurm_user",
    "slurmctld_pid_file",
)  # fmt: skip


class Control:
    """Stops and reconfigures a running controller, and answers the requests for it.

    Attributes:
        ended: set when the controller is to stop.
        with_nodes: whether node daemons stop with it.
    """

    def __init__(self, parts: ControllerParts, options: Options, log: DaemonLog) -> None:
        self.ended = asyncio.Event()
        self.with_nodes = False
        self._parts = parts
        self._options = options
        self._log = log
        parts.service.more["Reconfigure"] = self._answer_reconfigure
        parts.service.more["SetDebugLevel"] = self._set_debug_level
        parts.service.more["SetDebugFlags"] = self._set_debug_flags
        parts.service.more["SetSchedulingLog"] = self._set_scheduling_log
        parts.service.more["SetDampening"] = self._set_dampening
        parts.service.more["Shutdown"] = self._answer_shutdown

    def _answer_shutdown(self, call: Call, caller: Caller) -> None:
        request = cast(Shutdown, call.request)
        self._log.info(f"Shutdown request of uid={caller.uid}")

        def done() -> None:
            call.reply(Done())
            self._shutdown(controller_only=request.controller_only)

        self._parts.writer.when_durable(done)

    def _shutdown(self, *, controller_only: bool) -> None:
        """Stop soon, with all node daemons unless `controller_only`."""
        self.with_nodes = not controller_only
        self._log.info("Shutdown requested, saving all slurm state")
        self._parts.loop.call_later(_SHUTDOWN_S, self.ended.set)

    def terminate(self) -> None:
        """Stop the controller, after a signal."""
        self._log.info("Terminate signal (SIGINT or SIGTERM) received")
        self.ended.set()

    def reopen_logs(self) -> None:
        """Begin new log files, since the old ones were moved away."""
        self._log.reopen()
        self._parts.scheduling_log.reopen()
        self._parts.completions.reopen()

    def hang_up(self) -> None:
        """Open the log again and read the files again, after SIGHUP."""
        self._log.info("Reconfigure signal (SIGHUP) received")
        self.reopen_logs()
        bg.tell_systemd("RELOADING=1")
        try:
            for note in self._reconfigure():
                self._log.info(note)
        except BadConfiguration:
            pass  # said line by line already
        bg.tell_systemd("READY=1")

    def _answer_reconfigure(self, call: Call, caller: Caller) -> None:
        self._log.info(f"Processing Reconfiguration Request of uid={caller.uid}")
        try:
            notes = self._reconfigure()
        except BadConfiguration as error:
            call.error(Errno.SLURM_ERROR, "\n".join(error.lines))
            return
        self._log.info("_slurm_rpc_reconfigure_controller: completed")
        self._parts.writer.when_durable(lambda: call.reply(Done(notes=notes)))

    def _reconfigure(self) -> list[str]:
        """Read the files again; return notes.

        Raises:
            BadConfiguration: nothing has changed.
        """
        parts = self._parts
        try:
            fresh = load_configuration(self._options.conf_path)
        except BadConfiguration as error:
            for line in error.lines:
                self._log.error(line)
            self._log.error("the configuration in force stays")
            raise
        old_conf, conf = parts.configuration.conf, fresh.conf
        told = frozenset(parts.configuration.warnings)
        kept = [key for key in _FIXED if getattr(old_conf, key) != getattr(conf, key)]
        parts.adopt(fresh)
        cluster = parts.writer.cluster
        parts.writer.record(configure(cluster, conf, parts.clock.now_us(), fresh.topologies))
        parts.sender.reconfigure()
        self._write_scheduling(is_on=bool(conf.slurm_sched_log_level))
        self._log.info("reconfigured from " + conf.path)
        for line in fresh.warnings:
            if line not in told:
                self._log.info(line)
        names = ", ".join(key.title().replace("_", "") for key in kept)
        return [f"{names}: a change needs a restart of slurmctld"] if kept else []

    def _set_debug_level(self, call: Call, caller: Caller) -> None:
        """`scontrol setdebug`: log more or less until the files are read again."""
        level = cast(SetDebugLevel, call.request).level
        if self._log.file_level:
            self._log.file_level = max(FATAL, level)
        if self._options.foreground:
            self._log.stderr_level = max(FATAL, level)
        configuration = self._parts.configuration
        conf = replace(configuration.conf, slurmctld_debug=LEVELS[level])
        self._parts.show(replace(configuration, conf=conf))
        self._log.info(f"Set debug level to '{LEVELS[level]}'")
        self._parts.writer.when_durable(lambda: call.reply(Done()))

    def _set_debug_flags(self, call: Call, caller: Caller) -> None:
        """`scontrol setdebugflags`: change DebugFlags until the files are read again."""
        request = cast(SetDebugFlags, call.request)
        configuration = self._parts.configuration
        flags = [word for word in configuration.conf.debug_flags if word not in request.remove]
        flags += [word for word in request.add if word not in flags]
        conf = replace(configuration.conf, debug_flags=tuple(flags))
        self._parts.show(replace(configuration, conf=conf))
        self._log.info(f"Set DebugFlags to {','.join(flags) or 'none'}")
        self._parts.writer.when_durable(lambda: call.reply(Done()))

    def _set_dampening(self, call: Call, caller: Caller) -> None:
        """`scontrol fsdampeningfactor`: factors of fair-share follow until the files are read."""
        factor = cast(SetDampening, call.request).factor
        configuration = self._parts.configuration
        conf = replace(configuration.conf, fair_share_dampening_factor=factor)
        self._parts.show(replace(configuration, conf=conf))
        self._parts.fair_share.adopt(conf)
        self._log.info(f"Set FairShareDampeningFactor to {factor}")
        self._parts.writer.when_durable(lambda: call.reply(Done()))

    def _set_scheduling_log(self, call: Call, caller: Caller) -> None:
        """`scontrol schedloglevel`: write SlurmSchedLogFile or not, until the files are read."""
        request = cast(SetSchedulingLog, call.request)
        configuration = self._parts.configuration
        if not configuration.conf.slurm_sched_log_file:
            call.error(Errno.ESLURM_DISABLED, error_text(Errno.ESLURM_DISABLED))
            return
        problem = self._write_scheduling(is_on=request.is_on)
        if problem:
            call.error(Errno.SLURM_ERROR, problem)
            return
        conf = replace(configuration.conf, slurm_sched_log_level=int(request.is_on))
        self._parts.show(replace(configuration, conf=conf))
        self._log.info(f"sched: Set scheduler log level to {int(request.is_on)}")
        self._parts.writer.when_durable(lambda: call.reply(Done()))

    def _write_scheduling(self, *, is_on: bool) -> str:
        """Begin or end the file of what the scheduler does; return why it cannot be, or ""."""
        conf, log = self._parts.configuration.conf, self._parts.scheduling_log
        path = conf.slurm_sched_log_file
        if not is_on or not path:
            log.close()
            return ""
        try:
            log.open(path, INFO, conf.log_time_format[0] if conf.log_time_format else "iso8601_ms")
        except OSError as error:
            problem = f"Unable to open logfile `{path}': {error.strerror}"
            self._log.error(problem)
            return problem
        return ""
