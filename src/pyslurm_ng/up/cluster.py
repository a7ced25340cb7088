"""Bring a cluster up on this host, look at it, take it down."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import psutil

from pyslurm_ng.daemon.own_programs import program_directories
from pyslurm_ng.up import files, host_names, ports, programs, users, web
from pyslurm_ng.up.layout import (
    Layout,
    abandoned_runs,
    environment,
    pid_files_below,
    prepared_by_others,
)

START_LIMIT_S = 90.0
"""One that cannot start ends by itself; on a busy machine it takes long to load its modules."""
STOP_LIMIT_S = 15.0
IDLE_LIMIT_S = 60.0
COMMAND_LIMIT_S = 20.0
LOGIN_S = 28_800


Say = Callable[[str], None]


class NotPossible(Exception):
    """The cluster's state does not allow the request; the text is for the user."""


def up(request: files.Request, layout: Layout, say: Say) -> str:
    """Write the files, start the daemons, return when every node is IDLE.

    Returns:
        Why there are no pages although they were wanted, "" if they are there.

    Errors: NotPossible, BadRequest, ports.NoPorts, or programs.StartFailed; after these
        nothing of the cluster is running.
    """
    alive = [program.name for program in programs.running(layout) if program.process is not None]
    if alive:
        raise NotPossible(
            f"a cluster is running in {layout.directory} ({', '.join(alive)}); "
            f"stop it with: pyslurm-ng down --dir {layout.directory}"
        )
    directories = program_directories()
    needed = [name for name in programs.DAEMONS if request.has_web or name != web.NAME]
    paths = {name: programs.find_program(name, directories) for name in needed}
    sinfo = programs.find_program("sinfo", directories)
    remove_abandoned_runs()
    count = request.nodes + 2 + request.has_web
    if request.first_port:
        first = ports.chosen_row(request.first_port, count)
    else:
        first = ports.free_row(count)
    host = _own_name()
    names = files.node_names(request.nodes)
    try:
        files.write_all(request, layout, files.Ports(first, first + 1, first + 2), host)
        files.write_env(layout, directories)
    except OSError as problem:
        raise NotPossible(
            f"cannot write {problem.filename or layout.directory}: {problem.strerror}; "
            "--dir names another directory"
        ) from None
    for leftover in [*layout.pid_files().values(), *layout.log.glob("*.start")]:
        leftover.unlink(missing_ok=True)
    env = environment(layout, directories)
    conf = str(layout.slurm_conf)
    why_not = ""
    old_sizes = programs.log_sizes(layout)
    try:
        _start({"slurmdbd": [str(paths["slurmdbd"])]}, layout, env, say, old_sizes)
        _start({"slurmctld": [str(paths["slurmctld"]), "-f", conf]}, layout, env, say, old_sizes)
        slurmd = str(paths["slurmd"])
        commands = {f"slurmd-{name}": [slurmd, "-f", conf, "-N", name] for name in names}
        entries = {}
        if request.host_names:
            entries = {f"slurmd-{name}": host_names.entry(name, layout.hosts) for name in names}
        _start(commands, layout, env, say, old_sizes, entries)
        _wait_until_settled(sinfo, len(names), layout, env, say, old_sizes)
        cluster = files.cluster_name(request)
        _give_accounts(request.users, cluster, sinfo.with_name("sacctmgr"), env, say)
        if request.has_web:
            port = first + count - 1
            why_not = web.start(paths["slurmrestd"], port, layout, env, START_LIMIT_S)
            say("started slurmrestd" if not why_not else "slurmrestd does not run")
    except BaseException:
        down(layout, say=lambda line: None)
        raise
    return why_not


def _own_name() -> str:
    """Return this host's short name.

    Errors: NotPossible when slurm.conf cannot name the host so.
    """
    name = socket.gethostname()
    short = name.split(".")[0]
    if not re.fullmatch(r"[\w-]+", short):
        raise NotPossible(
            f"this host is called {name!r}, which cannot stand in slurm.conf; set a name of "
            "letters, digits, - and _, for instance with: hostname localhost"
        )
    return short


def _give_accounts(
    user_words: tuple[str, ...], cluster: str, sacctmgr: Path, env: dict[str, str], say: Say
) -> None:
    """Give an account to each user who has none.

    Errors: programs.StartFailed with what sacctmgr printed.
    """
    names = tuple(name for name in user_words if users.can_be_named(name))
    if odd := [name for name in user_words if name not in names]:
        # One odd name among all users of the host must not keep the others from their cluster.
        say(f"no account for {' '.join(map(repr, odd))}: sacctmgr cannot name such users")
    if not names:
        return
    show = ["-nP", "show", "assoc", f"cluster={cluster}", "format=account,user"]
    listed = output([str(sacctmgr), *show], env)
    for words in users.commands(names, listed, cluster):
        done = _finished([str(sacctmgr), *words], env)
        if done is None or done.returncode:
            text = (done.stderr or done.stdout).strip() if done else "no answer"
            raise programs.StartFailed(f"sacctmgr {' '.join(words)[:200]}: {text}")


def remove_abandoned_runs() -> None:
    """Remove temporary directories of killed clusters that have no process left."""
    for directory in abandoned_runs():
        pid_files = pid_files_below(directory)
        if not any(programs.process_of(path, programs.DAEMONS) for path in pid_files.values()):
            shutil.rmtree(directory, ignore_errors=True)


def _start(
    commands: dict[str, list[str]],
    layout: Layout,
    env: dict[str, str],
    say: Say,
    old_sizes: Mapping[str, int],
    entries: Mapping[str, Callable[[], None]] = MappingProxyType({}),
) -> None:
    """Start daemons side by side and wait until each is in the background."""
    children = {
        name: programs.start(name, argv, layout, env, entries.get(name))
        for name, argv in commands.items()
    }
    try:
        for name, child in children.items():
            programs.finish_start(name, child, layout, START_LIMIT_S, old_sizes)
            say(f"started {name}")
    finally:
        for child in children.values():
            if child.poll() is None:
                child.kill()
                child.wait()


def node_states(sinfo: Path, env: dict[str, str]) -> dict[str, str]:
    """Return each node's compact state as sinfo prints it; empty if slurmctld does not answer."""
    lines = output([str(sinfo), "-h", "-N", "-o", "%N %t"], env).splitlines()
    pairs = (line.split() for line in lines)
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


_KEPT_OUT = ("down", "drain", "drng", "fail", "failg", "maint", "resv", "futr")
"""Compact states in which an administrator keeps a node from jobs; without `*` it answers."""
_AT_WORK = ("idle", "mix", "alloc", "comp", "plnd")
_POWER_MARKS = "~#%!"
"""What sinfo puts behind the state of a node of a cloud that sleeps, wakes or is going to."""


def are_settled(states: Mapping[str, str], count: int) -> bool:
    """Return whether `count` nodes are ready for jobs, or are kept from them on purpose.

    Args:
        states: the compact state of each node, as sinfo prints it.
    """
    kinds = {state.rstrip(_POWER_MARKS) for state in states.values()}
    return len(states) >= count and kinds <= {*_AT_WORK, *_KEPT_OUT}


def summary(states: Mapping[str, str]) -> str:
    """Return how many nodes take jobs, and by name those that do not."""
    ready = sum(state.rstrip(_POWER_MARKS) in _AT_WORK for state in states.values())
    if all(state == "idle" for state in states.values()):
        text = f"{ready} node{'s are' if ready != 1 else ' is'} idle"
    else:
        text = f"{ready} node{'s take' if ready != 1 else ' takes'} jobs"
    out = [f"{name}={state}" for name, state in states.items() if state in _KEPT_OUT]
    return ", ".join([text, *out])


def _wait_until_settled(
    sinfo: Path,
    count: int,
    layout: Layout,
    env: dict[str, str],
    say: Say,
    old_sizes: Mapping[str, int],
) -> None:
    """Wait until nodes are idle; those of a cluster that ran before may be DOWN or have jobs."""
    states: dict[str, str] = {}

    def settled() -> bool:
        states.clear()
        states.update(node_states(sinfo, env))
        return are_settled(states, count)

    if programs.wait_until(settled, IDLE_LIMIT_S):
        say(summary(states))
        return
    late = {name: state for name, state in states.items() if not are_settled({name: state}, 1)}
    shown = " ".join(f"{name}={state}" for name, state in late.items())
    if states and not late:
        shown = f"only {' '.join(states)} are in a partition"
    shown = shown or "slurmctld is silent"
    names = ["slurmctld", *(f"slurmd-{name}" for name in list(late)[:2])]
    raise programs.StartFailed(
        f"not all nodes are ready after {IDLE_LIMIT_S:.0f} s: {shown}\n"
        + "\n".join(programs.evidence(layout, name, old_sizes) for name in names)
    )


def down(layout: Layout, say: Say) -> None:
    """Stop jobs and daemons, wait, kill those that stay. Logs, state and accounting remain.

    In what others may have prepared, only the processes of its owner are ended: nothing there is
    removed, and no command of ours believes its slurm.conf.

    Errors: NotPossible when they are another user's.
    """
    alive = [program for program in programs.running(layout) if program.process is not None]
    if owner := programs.other_owner(alive):
        raise NotPossible(f"the cluster in {layout.directory} is run by {owner}")
    controller = [program for program in alive if program.name == "slurmctld"]
    told = prepared_by_others(layout)
    if controller and not told:
        _cancel_all(layout)
    # First nodes, then the controller, then accounting: each may still report to the next.
    for prefix in ("slurmrestd", "slurmd-", "slurmctld", "slurmdbd"):
        group = [program for program in alive if program.name.startswith(prefix)]
        processes = [program.process for program in group if program.process is not None]
        killed = {process.pid for process in programs.end(processes, STOP_LIMIT_S)}
        for program in group:
            was_killed = program.process is not None and program.process.pid in killed
            say(f"{'killed' if was_killed else 'stopped'} {program.name}")
    for process in programs.step_daemons(layout):
        programs.end_tree(process)
    if told:
        say(f"its files stay: {told}")
        return
    for path in layout.pid_files().values():
        path.unlink(missing_ok=True)
    if layout.run.parent != layout.directory:
        shutil.rmtree(layout.run, ignore_errors=True)


def _cancel_all(layout: Layout) -> None:
    """Cancel every job, so that its processes end in the normal way before slurmd ends."""
    directories = program_directories()
    env = environment(layout, directories)
    try:
        scancel = str(programs.find_program("scancel", directories))
        squeue = str(programs.find_program("squeue", directories))
    except programs.StartFailed:
        return
    states = ("PENDING", "RUNNING", "SUSPENDED")

    def no_jobs() -> bool:
        return not output([squeue, "-h", "-o", "%i"], env)

    if no_jobs():
        return
    for state in states:
        output([scancel, f"--state={state}"], env)
    programs.wait_until(no_jobs, STOP_LIMIT_S, pause_s=0.1)


def output(argv: list[str], env: dict[str, str]) -> str:
    """Return a command's output; "" if it fails or takes too long."""
    result = _finished(argv, env)
    return result.stdout.strip() if result else ""


def _finished(argv: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str] | None:
    """Return how a command ended; None if it cannot be run or takes too long."""
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=False,
            env=env,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _address_of(program: programs.Running) -> str:
    """Return ` at http://...` of slurmrestd, "" for other daemons."""
    if program.name != web.NAME or program.process is None:
        return ""
    try:
        port = program.process.cmdline()[-1].rpartition(":")[2]
    except psutil.Error:
        return ""
    is_there = port.isdecimal() and web.listens(program.process, int(port))
    return f" at {web.address(int(port))}" if is_there else ""


def pages_of(layout: Layout) -> str:
    """Return where the cluster's pages are, "" without."""
    addresses = [_address_of(program) for program in programs.running(layout)]
    return "".join(addresses).removeprefix(" at ")


def login_of(layout: Layout) -> str:
    """Return a link that logs the cluster's user in to its pages once, "" without."""
    if prepared_by_others(layout):
        return ""  # the slurmrestd there may be another user's, and would get our token
    where = pages_of(layout)
    directories = program_directories()
    try:
        scontrol = programs.find_program("scontrol", directories)
    except programs.StartFailed:
        return ""
    env = environment(layout, directories)
    env.pop("SLURM_JWT", None)
    token = output([str(scontrol), "token", f"lifespan={LOGIN_S}"], env) if where else ""
    return web.login_link(where, token.removeprefix("SLURM_JWT=")) if token else ""


def status(layout: Layout) -> tuple[list[str], bool]:
    """Return lines about daemons and nodes, and whether all of them are well."""
    known = programs.running(layout)
    if not known:
        return [f"no cluster is running in {layout.directory}"], False
    lines = []
    well = any(program.name == "slurmctld" for program in known)
    for program in known:
        if program.process is None:
            lines.append(f"{program.name}: not running")
            well = False
        else:
            at = _address_of(program)
            lines.append(f"{program.name}: running{at}, pid {program.process.pid}")
    if told := prepared_by_others(layout):
        return [*lines, f"nodes: slurmctld is not asked: {told}"], False
    directories = program_directories()
    env = environment(layout, directories)
    try:
        states = node_states(programs.find_program("sinfo", directories), env)
    except programs.StartFailed:
        states = {}
    counts: dict[str, int] = {}
    for state in states.values():
        counts[state] = counts.get(state, 0) + 1
    shown = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    lines.append(f"nodes: {shown or 'slurmctld does not answer'}")
    return lines, well and bool(states)
