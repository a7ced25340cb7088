"""Write the configuration of a cluster that runs on one host."""

from __future__ import annotations

import os
import pwd
import secrets
import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyslurm_ng.base.hostlist import HostlistError, expand
from pyslurm_ng.conf.lexer import parse_text
from pyslurm_ng.up.host_names import hosts_text
from pyslurm_ng.up.layout import OWNER_LINK, BadRequest, Layout, prepared_by_others
from pyslurm_ng.up.slurm_user import account_of, give_to, make_log
from pyslurm_ng.up.web import KEY_BYTES, KEY_FILE


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `pyslurm-ng up`."""

    nodes: int
    cpus: int
    memory_mib: int
    gpus: int
    database: str
    extra_lines: str
    cluster_name: str
    sockets: int = 1
    shards: int = 0  # of each GPU
    slurm_user: str = ""  # runs slurmctld and slurmdbd; empty for the caller
    host_names: bool = False  # each node has a host name of its own
    first_port: int = 0  # slurmctld's; slurmdbd and the nodes follow; 0 for any that are free
    users: tuple[str, ...] = ()  # who get an account if they have none
    extra_dbd_lines: str = ""
    has_web: bool = False  # tokens, and slurmrestd behind the nodes' ports


@dataclass(frozen=True, slots=True)
class Ports:
    """The TCP ports of the daemons; `slurmd` is the first node's, the others follow it."""

    slurmctld: int
    slurmdbd: int
    slurmd: int


def numbers(first: int, count: int) -> str:
    """Return `count` numbers from `first` as inside a hostlist: `[1-4]`, or plain `1`."""
    return str(first) if count == 1 else f"[{first}-{first + count - 1}]"


def node_names(count: int) -> list[str]:
    """Return the names of a cluster's nodes: n1, n2 and so on."""
    return [f"n{number}" for number in range(1, count + 1)]


def slurm_conf(request: Request, layout: Layout, ports: Ports, host: str) -> str:
    """Return the text of slurm.conf; a key in the extra lines replaces ours."""
    base = {
        "ClusterName": request.cluster_name,
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": str(ports.slurmctld),
        "SlurmUser": account_of(request.slurm_user).pw_name,
        "AuthType": "auth/slurm",
        "CredType": "cred/slurm",
        "StateSaveLocation": str(layout.state),
        "SlurmdSpoolDir": f"{layout.spool}/%n",
        "SlurmctldPidFile": f"{layout.service_run}/slurmctld.pid",
        "SlurmdPidFile": f"{layout.run}/slurmd-%n.pid",
        "SlurmctldLogFile": f"{layout.log}/slurmctld.log",
        "SlurmdLogFile": f"{layout.log}/slurmd-%n.log",
        "SlurmdParameters": "config_overrides",
        "ProctrackType": proctrack(),
        "TaskPlugin": "task/none",
        "ReturnToService": "2",
        "SchedulerType": "sched/backfill",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": str(max(1, request.memory_mib // request.cpus)),
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": str(ports.slurmdbd),
        "JobAcctGatherType": "jobacct_gather/linux",
    }
    if request.has_web:
        base |= token_keys(layout)
    if request.gpus:
        names = ("gpu", "shard") if request.shards else ("gpu",)
        base["GresTypes"] = ",".join(names)
        base["AccountingStorageTRES"] = ",".join(f"gres/{name}" for name in names)
    taken = values_of(request.extra_lines)
    lines = ["# Written by `pyslurm-ng up`, each time; lines of your own come from --conf."]
    lines += [f"{key}={value}" for key, value in base.items() if key.lower() not in taken]
    gres = f" Gres=gpu:{request.gpus}" if request.gpus else ""
    if request.shards:
        gres += f",shard:{request.gpus * request.shards}"
    cores = request.cpus // request.sockets
    host_name = "" if request.host_names else f" NodeHostname={host}"
    lines.append(
        f"NodeName=n{numbers(1, request.nodes)}{host_name} NodeAddr=127.0.0.1"
        f" Port={numbers(ports.slurmd, request.nodes)}"
        f" CPUs={request.cpus} Boards=1 SocketsPerBoard={request.sockets} CoresPerSocket={cores}"
        f" ThreadsPerCore=1 RealMemory={request.memory_mib}{gres} State=UNKNOWN"
    )
    if not has_default_partition(request.extra_lines):
        lines.append("PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    if request.extra_lines.strip():
        lines += ["", "# Your lines.", request.extra_lines.strip()]
    return "\n".join(lines) + "\n"


def token_keys(layout: Layout) -> dict[str, str]:
    """Return the keys by which daemons take tokens, of slurm.conf and of slurmdbd.conf."""
    return {
        "AuthAltTypes": "auth/jwt",
        "AuthAltParameters": f"jwt_key={layout.etc / KEY_FILE}",
    }


def cluster_name(request: Request) -> str:
    """Return the name under which the cluster keeps its accounts."""
    return values_of(request.extra_lines).get("clustername", request.cluster_name).lower()


def _alternatives(site_values: dict[str, str]) -> dict[str, str]:
    """Return what the site's lines for slurm.conf say about tokens."""
    names = ("AuthAltTypes", "AuthAltParameters")
    return {name: site_values[name.lower()] for name in names if name.lower() in site_values}


def proctrack() -> str:
    """Return how jobs' processes are tracked here: by control groups if possible."""
    for root in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs"):
        if os.access(root, os.W_OK) and os.access(os.path.dirname(root), os.W_OK):
            return "proctrack/cgroup"
    return "proctrack/linuxproc"


def values_of(lines: str) -> dict[str, str]:
    """Return the value of each key in lines of a configuration; keys are in lower case."""
    entries = (entry for line in parse_text(lines).lines for entry in line)
    return {entry.key.lower(): entry.value for entry in entries}


def has_default_partition(lines: str) -> bool:
    """Return whether lines for slurm.conf name the partition of jobs that ask for none.

    A partition `debug` of theirs counts, too, since ours would have its name.
    """
    for line in parse_text(lines).lines:
        values = {entry.key.lower(): entry.value.lower() for entry in line}
        name = values.get("partitionname", "")
        if name == "debug" or (name != "default" and values.get("default") == "yes"):
            return True
    return False


def gres_conf(request: Request, layout: Layout) -> str:
    """Return the text of gres.conf; with several sockets each GPU is near one and linked there."""
    nodes = f"NodeName=n{numbers(1, request.nodes)} Name=gpu"
    shards = ""
    if request.shards:
        names = nodes.removesuffix("Name=gpu")
        shards = f"{names}Name=shard Count={request.gpus * request.shards}\n"
    if request.sockets > 1:
        cores = request.cpus // request.sockets
        home = [gpu * request.sockets // request.gpus for gpu in range(request.gpus)]
        lines = []
        for gpu, socket in enumerate(home):
            links = (
                -1 if other == gpu else 4 if other_home == socket else 1
                for other, other_home in enumerate(home)
            )
            lines.append(
                f"{nodes} File={layout.devices}/nvidia{gpu}"
                f" Cores={socket * cores}-{socket * cores + cores - 1}"
                f" Links={','.join(map(str, links))}\n"
            )
        return "".join(lines) + shards
    files = f"{layout.devices}/nvidia{numbers(0, request.gpus)}"
    return f"{nodes} File={files}\n{shards}"


def slurmdbd_conf(request: Request, layout: Layout, port: int) -> str:
    """Return the text of slurmdbd.conf; it may hold a password, so the file is private.

    How daemons trust each other, and where slurmdbd listens, is as in the lines for slurm.conf.
    A key in the extra lines replaces ours.
    """
    site_values = values_of(request.extra_lines)
    info = site_values.get("authinfo", "")
    lines = [
        "DbdHost=localhost",
        "DbdAddr=127.0.0.1",
        f"DbdPort={site_values.get('accountingstorageport', port)}",
        f"SlurmUser={account_of(request.slurm_user).pw_name}",
        f"AuthType={site_values.get('authtype', 'auth/slurm')}",
        *([f"AuthInfo={quoted(info)}"] if info else []),
        f"PidFile={layout.service_run}/slurmdbd.pid",
        f"LogFile={layout.log}/slurmdbd.log",
        *storage_lines(request.database, layout),
    ]
    if request.has_web:
        alternatives = {**token_keys(layout), **_alternatives(site_values)}
        lines += [f"{key}={value}" for key, value in alternatives.items()]
    taken = values_of(request.extra_dbd_lines)
    lines = [line for line in lines if line.partition("=")[0].lower() not in taken]
    lines.insert(
        0, "# Written by `pyslurm-ng up`, each time; lines of your own come from --dbd-conf."
    )
    if request.extra_dbd_lines.strip():
        lines += ["", "# Your lines.", request.extra_dbd_lines.strip()]
    return "\n".join(lines) + "\n"


OWN_KEYS = {
    "--conf": ("SlurmUser", "SlurmctldPidFile", "SlurmdPidFile"),
    "--dbd-conf": ("SlurmUser", "PidFile", "DbdHost", "DbdAddr", "DbdPort"),
}
"""Keys whose values `up` and `down` go by, with the option that adds lines."""
_OTHER_OPTIONS = {
    "SlurmUser": "--slurm-user",
    "DbdPort": "--port, or AccountingStoragePort in --conf",
}


def refuse_own_keys(option: str, lines: str) -> None:
    """Refuse lines of a file that would make `down` lose sight of the daemons.

    Errors: BadRequest names all such keys, and the option of `up` that does it, where there is one.
    """
    taken = values_of(lines)
    refused = [key for key in OWN_KEYS[option] if key.lower() in taken]
    if refused:
        raise BadRequest("; ".join(f"{option}: {_why_refused(key)}" for key in refused))


def _why_refused(key: str) -> str:
    instead = _OTHER_OPTIONS.get(key, "")
    hint = f"; use {instead}" if instead else ": `pyslurm-ng up` sets it"
    return f"{key} cannot be set here{hint}"


def refuse_nodes(lines: str, count: int) -> None:
    """Refuse lines for slurm.conf with nodes that `up` makes itself, or that nothing would start.

    Errors: BadRequest names the line, and what to do.
    """
    own = set(node_names(count))
    state_of_others = ""
    for line in parse_text(lines).lines:
        values = {entry.key.lower(): entry.value for entry in line}
        name = values.get("nodename", "")
        state = values.get("state", state_of_others).lower()
        if name.lower() == "default":
            state_of_others = state
            continue
        names = set(_names_in(name))
        if own & names:
            raise BadRequest(
                f"--conf: NodeName={name}: `pyslurm-ng up` writes n{numbers(1, count)} itself;"
                " use --nodes, --cpus, --sockets, --memory and --gpus"
            )
        if names and state in _STATES_OF_NODES_THAT_ANSWER:
            raise BadRequest(
                f"--conf: NodeName={name}: `pyslurm-ng up` starts n{numbers(1, count)} only;"
                " take the line out, or add State=CLOUD, FUTURE or DOWN"
            )


_STATES_OF_NODES_THAT_ANSWER = ("", "unknown", "idle")


def _names_in(hosts: str) -> list[str]:
    try:
        return expand(hosts) if hosts else []
    except HostlistError:
        return []  # slurmctld names the mistake, with its line


def storage_lines(url: str, layout: Layout) -> list[str]:
    """Return the Storage keys for a database URL; empty is SQLite in the cluster's directory.

    Errors: BadRequest names what is allowed.
    """
    if not url:
        url = f"sqlite:///{layout.state}/slurmdbd.sqlite"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as problem:
        raise BadRequest(f"invalid --database {url!r}: {problem}") from None
    path = unquote(parts.path.removeprefix("/"))
    if parts.scheme == "sqlite":
        if parts.netloc or not path:
            raise BadRequest(f"invalid --database {url!r}: sqlite:///FILE is allowed")
        # sqlite:////srv/file is absolute, sqlite:///file is below the working directory.
        return [
            "StorageType=accounting_storage/sqlite",
            f"StorageLoc={Path(path).absolute()}",
        ]
    if parts.scheme not in ("mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql"):
        raise BadRequest(
            f"invalid --database {url!r}: sqlite:///FILE or mysql://USER:PASSWORD@HOST:PORT/NAME"
            " is allowed"
        )
    if "/" in path:
        raise BadRequest(f"invalid --database {url!r}: a database name holds no slash")
    lines = [
        "StorageType=accounting_storage/mysql",
        f"StorageHost={parts.hostname or 'localhost'}",
        f"StorageLoc={path or 'slurm_acct_db'}",
    ]
    if port:
        lines.append(f"StoragePort={port}")
    if parts.username:
        lines.append(f"StorageUser={unquote(parts.username)}")
    if parts.password:
        lines.append(f"StoragePass={quoted(unquote(parts.password))}")
    return lines


def quoted(text: str) -> str:
    """Return `text` as a value: in quotes where a blank or `#` would end it."""
    if "\n" in text or '"' in text:
        raise BadRequest("a value with a quote or a line end cannot stand in slurmdbd.conf")
    return f'"{text}"' if set(text) & set(" \t#=\\") else text


def write_private(path: Path, content: bytes, owner: pwd.struct_passwd) -> None:
    """Write a file that only its owner may read, from the moment it exists."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if owner.pw_uid != os.geteuid():
            os.fchown(descriptor, owner.pw_uid, owner.pw_gid)


def check_ours(layout: Layout) -> None:
    """Refuse a directory that somebody else has prepared: keys, and links to files of ours.

    Raises:
        BadRequest: what is there belongs to another user, or every user may write to it.
    """
    if told := prepared_by_others(layout):
        raise BadRequest(f"{told}; --dir names another directory")


def write_all(request: Request, layout: Layout, ports: Ports, host: str) -> None:
    """Write every file of a new or a stopped cluster.

    The key is kept, so that older tokens and credentials stay valid.
    """
    check_ours(layout)
    if not layout.directory.exists():
        layout.directory.mkdir(mode=0o755, parents=True)
        # Other users may look for their jobs' files below it, even if the umask forbids that.
        layout.directory.chmod(0o755)
    for directory in (layout.etc, layout.log, layout.run, layout.spool):
        directory.mkdir(mode=0o755, exist_ok=True)
    account = account_of(request.slurm_user)
    layout.state.mkdir(mode=0o700, exist_ok=True)
    layout.service_run.mkdir(mode=0o755, exist_ok=True)
    for directory in (layout.state, layout.service_run):
        give_to(directory, account)
    for daemon in ("slurmctld", "slurmdbd"):
        # They cannot make files in the directory of logs, which is root's for slurmd.
        make_log(layout.log / f"{daemon}.log", account)
    if layout.run.parent != layout.directory:
        link = layout.run / OWNER_LINK
        link.unlink(missing_ok=True)
        link.symlink_to(layout.directory)
    layout.slurm_conf.write_text(slurm_conf(request, layout, ports, host))
    if request.host_names:
        layout.hosts.write_text(hosts_text(node_names(request.nodes)))
    dbd = slurmdbd_conf(request, layout, ports.slurmdbd)
    write_private(layout.etc / "slurmdbd.conf", dbd.encode(), account)
    key = layout.etc / "slurm.key"
    write_private(key, key.read_bytes() if key.exists() else secrets.token_bytes(1024), account)
    if request.has_web:
        tokens = layout.etc / KEY_FILE
        secret = tokens.read_bytes() if tokens.exists() else secrets.token_bytes(KEY_BYTES)
        write_private(tokens, secret, account)
    gres_file = layout.etc / "gres.conf"
    gres_file.unlink(missing_ok=True)
    if request.gpus:
        layout.devices.mkdir(exist_ok=True)
        for number in range(request.gpus):
            # Any file will do: slurmd gives it to jobs, and no job computes with it.
            (layout.devices / f"nvidia{number}").touch()
        gres_file.write_text(gres_conf(request, layout))


def write_env(layout: Layout, program_directories: list[Path]) -> None:
    """Write env.sh, to be sourced by a shell that wants to use the cluster, and to end it."""
    path = ":".join(shlex.quote(str(directory)) for directory in program_directories)
    layout.env_file.write_text(
        f"export PATH={path}:$PATH\nexport SLURM_CONF={shlex.quote(str(layout.slurm_conf))}\n"
        f"export PYSLURM_NG_DIR={shlex.quote(str(layout.directory))}\n"
    )
