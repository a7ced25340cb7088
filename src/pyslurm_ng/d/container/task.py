"""A task in a container: `slurmstepd container SETTINGS PROGRAM ...`, run as the task's user.

It stands where the task's program would: it has the task's streams, variables, control groups and
CPUs. It writes a config.json of its own, has the runtime (runc, crun) run the program, and ends as
the program did. It holds no rights, so it may wait for any of the user's files.
"""

import json
import os
import shutil
import sys
import tempfile
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIGCONT,
    SIGHUP,
    SIGINT,
    SIGQUIT,
    SIGTERM,
    SIGTSTP,
    SIGUSR1,
    SIGUSR2,
    raise_signal,
    signal,
)

from pyslurm_ng.d.container.bundle import (
    ContainerError,
    environment_text,
    for_user,
    read_config,
    variables_without,
    with_mount,
    with_program,
    without_hooks,
)
from pyslurm_ng.d.container.image_task import ImageTask
from pyslurm_ng.d.container.own_directory import make_own, remove_own
from pyslurm_ng.d.container.patterns import expand, expand_path
from pyslurm_ng.kernels.process import become_subreaper, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_COMMANDS = (
    "RunTimeRun", "RunTimeCreate", "RunTimeStart", "RunTimeQuery", "RunTimeKill", "RunTimeDelete",
)  # fmt: skip
MOUNT_POINT = "/var/run/slurm"
_PASSED_ON = (SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT)


def main(argv: "Sequence[str]") -> int:
    """Run a program in a container; return its exit code, 1 where it cannot run."""
    for number in _PASSED_ON:
        signal(number, _ignore)  # every process of the step gets it, the program too
    try:
        return _Task(json.loads(argv[0]), list(argv[1:])).run()
    except (ContainerError, OSError) as problem:
        sys.stderr.write(f"slurmstepd: error: container: {problem}\n")
        return 1


def _ignore(number: int, frame: object) -> None:
    """A handler, unlike SIG_IGN, is not inherited by programs."""


class _Task:
    def __init__(self, settings: "dict[str, Any]", argv: "list[str]") -> None:
        self._settings = settings
        self._oci: dict[str, Any] = settings["oci"]
        self._options: dict[str, str] = settings["options"]
        self._argv = argv
        self._variables = dict(os.environ)
        task = os.environ.get("SLURM_PROCID", "0")
        user = settings["user"]
        self._values = {
            "j": str(settings["job"]), "s": str(settings["step"]), "t": task, "u": user,
            "U": str(os.geteuid()), "n": settings["node"], "p": str(os.getpid()),
            "Z": os.getcwd(), "e": "", "b": self._options.get("bundle", ""), "r": "", "m": "",
        }  # fmt: skip
        self._spool = ""

    def run(self) -> int:
        self._make_spool()
        try:
            if "bundle" in self._options:
                self._prepare()
                status = self._run()
            else:
                image_task = ImageTask(self._settings, self._spool)
                try:
                    status = image_task.run(self._argv)
                finally:
                    image_task.leave()
        finally:
            if not self._oci.get("DisableCleanup"):
                remove_own(self._spool)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            signal(number, SIG_DFL)
            raise_signal(number)
        return os.waitstatus_to_exitcode(status)

    def _make_spool(self) -> None:
        """Make a directory for this task's files, which only its user enters."""
        path = self._oci.get("ContainerPath", "")
        if path:
            self._spool = expand_path(path, self._values)
            make_own(self._spool, os.path.dirname(path.partition("%")[0]) or "/")
        else:
            self._spool = tempfile.mkdtemp(prefix="slurm-container-")
        self._values["m"] = self._spool

    # The configuration --------------------------------------------------------------------------

    def _prepare(self) -> None:
        argv, mount_point = self._argv, self._oci.get("MountSpoolDir", "") or MOUNT_POINT
        mount_point = expand_path(mount_point, self._values)
        if self._settings["is_batch"]:
            shutil.copyfile(argv[0], f"{self._spool}/startup")
            os.chmod(f"{self._spool}/startup", 0o700)
            argv = [f"{mount_point}/startup", *argv[1:]]
        self._argv = argv
        variables = variables_without(self._oci.get("EnvExclude", ""), self._variables)
        self._write_variables(variables)
        if self._oci.get("IgnoreFileConfigJson"):
            return
        bundle = self._options["bundle"]
        config = read_config(bundle)
        is_terminal = os.isatty(0) and os.isatty(1)
        try:
            config = with_program(config, bundle, argv, variables, is_terminal=is_terminal)
            config = with_mount(config, self._spool, mount_point)
            config = without_hooks(config, self._oci.get("DisableHooks", ()))
            if os.geteuid():
                config = for_user(config, os.geteuid(), os.getegid())
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            text = f"{bundle}/config.json is not as the OCI specification has it: {error}"
            raise ContainerError(text) from None
        with open(f"{self._spool}/config.json", "w") as file:
            json.dump(config, file)
        self._values["b"] = self._spool
        self._values["r"] = config["root"]["path"]

    def _write_variables(self, variables: "dict[str, str]") -> None:
        kind = self._oci.get("CreateEnvFile", "").lower()
        if kind not in ("null", "newline"):
            return
        path = f"{self._spool}/environment"
        with open(path, "w", errors="surrogateescape") as file:
            file.write(environment_text(variables, "\0" if kind == "null" else "\n"))
        self._values["e"] = path

    # The runtime --------------------------------------------------------------------------------

    def _run(self) -> int:
        """Run the container to its end; return the wait status of its program."""
        become_subreaper()
        commands = {name: self._oci.get(name, "") for name in _COMMANDS}
        try:
            if commands["RunTimeRun"]:
                return self._shell(commands["RunTimeRun"])
            for name in ("RunTimeCreate", "RunTimeStart"):
                status = self._shell(commands[name])
                if status:
                    raise ContainerError(f"{name} failed with status {status >> 8}")
            return _last_child()
        finally:
            if not commands["RunTimeQuery"] or not self._shell(
                commands["RunTimeQuery"], is_quiet=True
            ):
                for name in ("RunTimeKill", "RunTimeDelete"):
                    if commands[name]:
                        self._shell(commands[name], is_quiet=True)

    def _shell(self, command: str, *, is_quiet: bool = False) -> int:
        """Run a command; return its wait status."""
        words = [b"/bin/sh", b"-c", os.fsencode(expand(command, self._values, self._argv))]
        pattern = self._oci.get("RunTimeEnvExclude", "")
        variables = variables_without(pattern, self._variables)
        env = [os.fsencode(f"{name}={value}") for name, value in variables.items()]
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        streams = (null, null, null) if is_quiet else (0, 1, 2)
        pid = spawn(
            words[:1], words, env, stdin=streams[0], stdout=streams[1], stderr=streams[2]
        )  # fmt: skip
        os.close(null)
        _, status = os.waitpid(pid, 0)
        return status


def _last_child() -> int:
    """Wait for all processes of the container; return how the first of them to end did."""
    first = -1
    while True:
        try:
            _, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return max(first, 0)
        if first < 0:
            first = status
