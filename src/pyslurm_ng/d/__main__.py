"""slurmd's command line."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from pyslurm_ng.conf.quick import find_conf
from pyslurm_ng.d.daemon import CannotStart, start
from pyslurm_ng.d.host import sensors
from pyslurm_ng.d.node.bad_setup import BadSetup
from pyslurm_ng.d.node.future_node import take_node
from pyslurm_ng.d.node.setup import Options, Setup, load_setup
from pyslurm_ng.daemon.background import Background
from pyslurm_ng.daemon.log import DaemonLog, level_number
from pyslurm_ng.daemon.options import read_command_line
from pyslurm_ng.daemon.process_settings import with_stack_room

USAGE = """\
Usage: slurmd [OPTIONS]
  -b              Report the node as just rebooted.
  -c              Remove what a former slurmd left in the spool directory.
  --conf TEXT     With -Z the keys of the node, as in slurm.conf; else Topology=PLACE: where
                  the node is in the network.
  -C              Print this host's hardware as a line for slurm.conf, and end.
  -d STEPD        Accepted as Slurm does; slurmstepd lies beside slurmd.
  -D              Run in the foreground.
  --extra TEXT    Have the node's Extra say this.
  -F[FEATURE]     Become a FUTURE node of slurm.conf with this host's hardware, and this feature.
  -f FILE         Read configuration from FILE.
  -G              Print the generic resources of this node, and end.
  -h, --help      Print this help message.
  --instance-id TEXT    Have the node's InstanceId say this.
  --instance-type TEXT  Have the node's InstanceType say this.
  -L LOGFILE      Log messages to the file LOGFILE.
  -M              Accepted as Slurm does; pages are not locked.
  -n VALUE        Run at this niceness.
  -N NAME         Be the node of this name; needed where several are on one host.
  -q              Log less; may be repeated.
  -s              Change working directory to SlurmdSpoolDir.
  --systemd       Started by systemd: stay in the foreground and tell it when ready.
  -v              Log more; may be repeated.
  -V, --version   Print version information and end.
  -Z              Be a dynamic node: the controller makes the node that this host is.
"""
_SHORT = "bcCd:Df:GhL:Mn:N:qsvVZ"
_LONG = ["conf=", "extra=", "help", "instance-id=", "instance-type=", "systemd", "version"]
_REFUSED = {"--conf-server": "configless nodes"}


def main(argv: list[str]) -> int:
    """Run slurmd, or do what its options ask instead; return the exit code."""
    for word in argv:
        if (name := word.partition("=")[0]) in _REFUSED:
            sys.stderr.write(f"slurmd: error: {name}: {_REFUSED[name]}: not supported yet\n")
            return 1
    # Its feature stands behind it without a blank, which getopt does not know.
    future = [word.removeprefix("-F").removeprefix("=") for word in argv if word[:2] == "-F"]
    argv = [word for word in argv if word[:2] != "-F"]
    command_line = read_command_line("slurmd", argv, _SHORT, _LONG, USAGE)
    if isinstance(command_line, int):
        return command_line
    names, values, operands = command_line
    if operands:
        sys.stderr.write(f"slurmd: unexpected argument '{operands[0]}'\n{USAGE}")
        return 1
    if "-C" in names:
        return print_hardware()
    nice = command_line.niceness()
    if nice is None:
        sys.stderr.write(f"slurmd: -n {values['-n']}: a niceness from -20 to 19 is allowed\n")
        return 1
    is_dynamic = "-Z" in names
    if is_dynamic and future:
        sys.stderr.write("slurmd: error: -F and -Z exclude each other\n")
        return 1
    topology = topology_of(values.get("--conf", ""), is_alone=not is_dynamic)
    if topology is None:
        sys.stderr.write("slurmd: error: --conf: without -Z only Topology=PLACE is allowed\n")
        return 1
    options = Options(
        conf_path=os.path.abspath(values.get("-f") or find_conf()),
        node_name=values.get("-N", ""),
        foreground="-D" in names or "--systemd" in names,
        clean="-c" in names,
        log_path=os.path.abspath(values["-L"]) if "-L" in values else "",
        verbose=names.count("-v"),
        quiet=names.count("-q"),
        boot_id=os.urandom(16).hex() if "-b" in names else "",
        extra=values.get("--extra", ""),
        instance_id=values.get("--instance-id", ""),
        instance_type=values.get("--instance-type", ""),
        topology=topology,
        is_dynamic=is_dynamic,
        own_keys=values.get("--conf", "") if is_dynamic else "",
    )
    if future:
        options = replace(options, is_future=True, node_name="", host_name=options.node_name)
    if "-G" in names:
        return print_resources(options)
    return with_stack_room(
        lambda: _run(options, nice=nice, changes_directory="-s" in names, feature="".join(future))
    )


def topology_of(conf_text: str, *, is_alone: bool = True) -> str | None:
    """Return the Topology= of --conf, "" without one; None if nothing else may be there but is."""
    topology = ""
    for word in conf_text.split():
        key, _, value = word.partition("=")
        if key.lower() == "topology" and value:
            topology = value
        elif is_alone:
            return None
    return topology


def print_hardware() -> int:
    """Print the NodeName line of this host, and how long it has been up."""
    host = sensors.host_facts()
    gpus = _gres_of_gpus()
    print(
        f"NodeName={host.hostname} {sensors.hardware_words(host)} RealMemory={host.real_memory_mib}"
        f"{' Gres=' + gpus if gpus else ''}"
    )
    if gpus:
        print(f"Found {gpus} with Autodetect=nvml (Substring of gpu name may be used instead)")
    with open("/proc/uptime", encoding="ascii") as file:
        seconds = int(float(file.read().split()[0]))
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    print(f"UpTime={days}-{hours:02d}:{rest // 60:02d}:{rest % 60:02d}")
    return 0


def _gres_of_gpus() -> str:
    """Return this host's NVIDIA GPUs as for Gres=; nothing where there are none."""
    from pyslurm_ng.d.host import nvml

    try:
        types = [gpu.type_name for gpu in nvml.detect()]
    except nvml.DetectionError:
        return ""
    return ",".join(f"gpu:{name}:{types.count(name)}" for name in dict.fromkeys(types))


def print_resources(options: Options) -> int:
    """Print the generic resources of this node as gres.conf and drivers tell of them."""
    from pyslurm_ng.d.host.gres import conf_lines

    try:
        setup = load_setup(options)
    except BadSetup as error:
        for line in error.lines:
            sys.stderr.write(f"slurmd: error: {line}\n")
        sys.stderr.write("slurmd: fatal: Unable to process configuration file\n")
        return 1
    cores = setup.line.sockets * setup.line.cores_per_socket
    for line in conf_lines(setup.node.devices, cores):
        print(f"slurmd: {line}")
    return 0


def _run(options: Options, *, nice: int, changes_directory: bool, feature: str) -> int:
    log = DaemonLog("slurmd")
    try:
        if options.is_future:
            name = take_node(options.conf_path, feature, options.host_name)
            options = replace(options, node_name=name)
        setup = load_setup(options)
    except BadSetup as error:
        for line in error.lines:
            log.error(line)
        log.fatal("Unable to process configuration file")
        return 1
    background = Background(foreground=options.foreground)
    try:
        _open_log(log, options, setup)
        for line in setup.warnings:
            log.info(line)
        if nice:
            os.nice(nice)
        if options.clean:
            _clean(setup.spool, log)
        if changes_directory:
            os.makedirs(setup.spool, mode=0o711, exist_ok=True)
            os.chdir(setup.spool)
        elif not options.foreground:
            os.chdir("/")
        return start(options, setup, log, background)
    except CannotStart as error:
        log.fatal(str(error))
    except OSError as error:
        log.fatal(f"{error.filename or 'slurmd'}: {error.strerror}")
    return 1


def _open_log(log: DaemonLog, options: Options, setup: Setup) -> None:
    """Log where and how much the configuration and the command line say.

    Raises:
        CannotStart: the log file cannot be opened.
    """
    conf = setup.node.conf
    level = max(1, level_number(conf.slurmd_debug) + options.verbose - options.quiet)
    path = options.log_path or setup.log_file
    form = conf.log_time_format[0] if conf.log_time_format else "iso8601_ms"
    try:
        log.begin(level, path, form, conf.slurmd_syslog_debug, foreground=options.foreground)
    except OSError as error:
        raise CannotStart(f"Unable to open logfile `{path}': {error.strerror}") from None


def _clean(spool: str, log: DaemonLog) -> None:
    """Forget steps of an earlier slurmd that no longer run."""
    from pyslurm_ng.d.spool import step_record
    from pyslurm_ng.d.spool.spool import Spool

    kept = Spool(spool)
    for path, _ in list(kept.step_files()):
        try:
            alive = step_record.is_alive(step_record.read(path).get("pid"))
        except (OSError, step_record.StepRecordError):
            alive = False
        if not alive:
            kept.remove_step(path)
            log.info(f"removed {path}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
