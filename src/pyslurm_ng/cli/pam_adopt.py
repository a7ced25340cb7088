"""pam_pyslurm_adopt: the program of PAM that lets users with a job in, and into their job.

    account  required  pam_pyslurm_adopt.so
    session  required  pam_pyslurm_adopt.so

The module runs this program, and moves the session to the namespace that it names. Without the
module pam_exec runs it, and sessions stay outside of the job's private directories:

    account  required  pam_exec.so stdout quiet /usr/sbin/pam_pyslurm_adopt
    session  required  pam_exec.so quiet /usr/sbin/pam_pyslurm_adopt

It runs as root beside the service that somebody logs in to, and asks the node daemons of this host
over their Unix sockets, where the kernel says that root asks. The words are those of
pam_slurm_adopt.
"""

import os
import sys
from time import monotonic

from pyslurm_ng.kernels.records import pack
from pyslurm_ng.wire.daemon_link import (
    Lost,
    SlurmError,
    connect_unix,
    folded,
    run_directory,
    slurmctld_port,
    unpacked,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DENIED = "Access denied by pam_slurm_adopt: you have no active jobs on this node"
_LIMIT_S = 10.0
_MODULE = "pam_pyslurm_adopt"
_PERMIT, _DENY = 0, 1
ACTIONS = {
    "action_no_jobs": ("deny", "ignore"),
    "action_unknown": ("newest", "allow", "deny"),
    "action_adopt_failure": ("allow", "deny"),
    "action_generic_failure": ("ignore", "allow", "deny"),
}
"""The words that take one of some values, the default first."""
NAMES = ("nodename", "conf")
"""The words that take a name."""


class _CannotAsk(Exception):
    """Whether the user has a job here cannot be found out; one line."""


def main(argv: "list[str]") -> int:
    """Return 0 if the user of PAM_USER may log in, 1 if not."""
    # pam_exec hands on PAM's variables, which a user may have had read: `conf` chooses the file.
    os.environ.pop("SLURM_CONF", None)
    words = _words(argv)
    variables = _variables()
    user, kind = variables.get("PAM_USER", ""), variables.get("PAM_TYPE", "account")
    if kind not in ("account", "open_session"):
        return _PERMIT
    try:
        uid = _uid_of(user)
        if uid == 0:
            return _PERMIT
        pid, start = _service_process()
        answers = _ask(words, uid, pid, start)
    except _CannotAsk as problem:
        return _decided(words, "action_generic_failure", f"{user}: {problem}")
    jobs = sum(answer["jobs"] for answer in answers)
    if not jobs:
        if words["action_no_jobs"] == "deny":
            print(_DENIED)
        return _decided(words, "action_no_jobs", f"{user} has no job on this node")
    if any(answer["job_id"] for answer in answers):
        if kind == "open_session" and variables.get("PAM_MODULE") == _MODULE:
            _tell_namespace(answers[-1])
        return _PERMIT
    problems = [answer["problem"] for answer in answers if answer["problem"]]
    if problems:
        return _decided(words, "action_adopt_failure", f"{user}: {problems[0]}")
    return _decided(words, "action_unknown", f"{user} has {jobs} jobs on this node")


def _variables() -> "dict[str, str]":
    """Return the environment; of a name that is there twice the last counts.

    pam_exec puts what it says itself behind PAM's variables, which a user may have had read.
    """
    with open("/proc/self/environ", "rb") as file:
        texts = os.fsdecode(file.read()).split("\0")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def _tell_namespace(answer: "dict[str, Any]") -> None:
    """Name the namespace of the job's private directories to the module, if there is one."""
    if answer.get("namespace"):
        print(f"namespace {answer['namespace']}")


def _words(argv: "list[str]") -> "dict[str, str]":
    """Return the words of the PAM line; one that is wrong is named, and its default holds."""
    words = {name: values[0] for name, values in ACTIONS.items()}
    words |= dict.fromkeys(NAMES, "")
    for word in argv:
        name, _, value = word.partition("=")
        if name not in words or value not in ACTIONS.get(name, (value,)):
            _log(f"{word}: not known, so it has no effect")
        else:
            words[name] = value
    return words


def _decided(words: "dict[str, str]", action: str, text: str) -> int:
    """Log what was found, and return what the word for it says."""
    value = words[action]
    _log(f"{text}: {action}={value}")
    return _DENY if value == "deny" else _PERMIT


def _log(text: str) -> None:
    import syslog

    syslog.openlog("pam_pyslurm_adopt", syslog.LOG_PID, syslog.LOG_AUTHPRIV)
    syslog.syslog(syslog.LOG_NOTICE, text)


def _uid_of(user: str) -> int:
    from pwd import getpwnam

    try:
        return getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise _CannotAsk("no such user") from None


def _service_process() -> "tuple[int, int]":
    """Return the process that the user's session descends from: the one that runs pam_exec.

    If that is gone this process has another parent, which nothing may be done to.
    """
    from pyslurm_ng.daemon.process_tree import parent, read_proc

    pid = os.getppid()
    try:
        stat = read_proc(f"/proc/{pid}/stat")
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        raise _CannotAsk("the service that asked has ended") from None
    if pid <= 1 or owner != os.geteuid() or parent(os.getpid()) != pid:
        raise _CannotAsk("it is not run by pam_exec of a service of root")
    return pid, int(stat[stat.rindex(b")") + 2 :].split()[19])


def _ask(words: "dict[str, str]", uid: int, pid: int, start: int) -> "list[dict[str, Any]]":
    """Return the answers of this host's node daemons until one has the process in a job.

    Raises:
        _CannotAsk: one does not answer.
    """
    request = {
        "uid": uid,
        "pid": pid,
        "start_ticks": start,
        "node": words["nodename"],
        "picks_newest": words["action_unknown"] == "newest",
    }
    answers: list[dict[str, Any]] = []
    for path in _sockets(words["conf"]):
        answers.append(_answer(path, pack(request)))
        if answers[-1]["job_id"]:
            break
    return answers


def _sockets(conf_path: str) -> "list[str]":
    from pyslurm_ng.conf.quick import find_conf, quick

    path = conf_path or find_conf()
    try:
        conf = folded(quick(path, ("SlurmdPidFile", "SlurmctldPort")))
    except OSError as error:
        raise _CannotAsk(f"{path}: {error.strerror}") from None
    directory = run_directory(conf.get("slurmdpidfile", ""))
    begins = f"slurmd-{slurmctld_port(conf)}-"
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise _CannotAsk(f"{directory}: {error.strerror}") from None
    paths = [f"{directory}/{name}" for name in names if name.startswith(begins)]
    if not paths:
        raise _CannotAsk(f"no slurmd has a socket in {directory}")
    return paths


def _answer(path: str, body: bytes) -> "dict[str, Any]":
    from pyslurm_ng.wire.frame import ABOUT_CONNECTION, BadFrame

    deadline = monotonic() + _LIMIT_S
    try:
        link = connect_unix(path, deadline, "root")
        try:
            link.send("AdoptLogin", body, b"", deadline)
            while True:
                _, _, sequence, answer = link.receive(deadline)
                if sequence != ABOUT_CONNECTION:
                    return unpacked(answer)
        finally:
            link.close()
    except (OSError, Lost, BadFrame, SlurmError) as error:
        raise _CannotAsk(f"{path}: {getattr(error, 'text', '') or error}") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
