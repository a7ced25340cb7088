"""How a command reaches a daemon: its address, one connection, and frames on it.

Every command imports this at its start, so the rules of `wire.client` for imports hold here, too.

Where a daemon is found:

* its Unix socket on this host (`socket_path`): next to its pid file, or in /run/slurm when the
  pid file lies in /run or /var/run, named `slurmctld-PORT.sock`, `slurmdbd-PORT.sock`,
  `slurmd-SLURMCTLDPORT-PORT.sock`;
* else TCP, SlurmctldHost by SlurmctldHost in their order, with a credential for every request:
  from munge, or with auth/slurm from any daemon of the cluster on this host, asked over its Unix
  socket where the kernel tells it who asks.
"""

import posix as os
import sys
from _socket import (
    AF_UNIX,
    IPPROTO_TCP,
    SO_KEEPALIVE,
    SO_PEERCRED,
    SOCK_CLOEXEC,
    SOCK_STREAM,
    SOL_SOCKET,
    TCP_NODELAY,
    getaddrinfo,
    socket,
)
from time import monotonic

from pyslurm_ng.data_parser.records import Row
from pyslurm_ng.kernels.records import unpack
from pyslurm_ng.wire.frame import (
    FLAG_ERROR,
    FLAG_REPLY,
    HEAD_BYTES,
    BadFrame,
    pack_frame,
    parse_head,
    parse_kind,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DEFAULT_RUN_DIRECTORY = "/run/slurm"
DEFAULT_SLURMCTLD_PORT = 6817
HOME_PORT = "HomeSlurmctldPort"
"""No key of slurm.conf: in the words for another cluster, SlurmctldPort of this host's. Its
daemons vouch for users here; the other cluster's controller is reached over TCP only."""


class SlurmError(Exception):
    """A request failed; holds Slurm's error number and the line to print after `error: `.

    `detail` is the operating system's reason for a connection failure, or empty; `sequence`
    that of the request refused, where a daemon refused one.
    """

    def __init__(self, code: int, text: str, detail: str = "", sequence: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.detail = detail
        self.sequence = sequence


# --- addresses ----------------------------------------------------------------------------


def run_directory(pid_file: str) -> str:
    """Return where a daemon with this pid file has its Unix socket."""
    directory = pid_file.rpartition("/")[0]
    if not directory or directory in ("/run", "/var/run") or "%" in directory:
        return DEFAULT_RUN_DIRECTORY
    return directory


def socket_file(daemon: str, pid_file: str, port: int, slurmctld_port: int = 0) -> str:
    """Return the Unix socket of a daemon: `daemon` is slurmctld, slurmdbd or slurmd.

    `port` is its own TCP port; for slurmd `slurmctld_port` tells clusters on one host apart.
    """
    number = f"{slurmctld_port}-{port}" if daemon == "slurmd" else str(port)
    return f"{run_directory(pid_file)}/{daemon}-{number}.sock"


def socket_path(conf: "Mapping[str, str]") -> str:
    """Return slurmctld's Unix socket; `conf` holds slurm.conf's words, keys in any case."""
    return slurmctld_socket(folded(conf))


def folded(conf: "Mapping[str, Any]") -> "dict[str, str]":
    """Return slurm.conf's words with keys in lower case, as the functions here take them."""
    return {
        key.lower(): ",".join(value) if isinstance(value, list | tuple) else str(value)
        for key, value in conf.items()
        if value is not None
    }


def slurmctld_socket(conf: "dict[str, str]") -> str:
    """Return slurmctld's Unix socket, from folded words."""
    pid_file = conf.get("slurmctldpidfile", "/var/run/slurmctld.pid")
    return socket_file("slurmctld", pid_file, slurmctld_port(conf))


def slurmctld_port(conf: "dict[str, str]") -> int:
    """Return slurmctld's port, from folded words."""
    # A range of ports is allowed there; the first is ours.
    return int(conf.get("slurmctldport", "").split("-")[0] or DEFAULT_SLURMCTLD_PORT)


def slurmdbd_places(
    host: str, backup_host: str, port: int, pid_file: str
) -> "list[tuple[str, int]]":
    """Return where slurmdbd may answer, in the order to try: (path, 0) or (host, port).

    `host` is AccountingStorageHost, `backup_host` AccountingStorageBackupHost or "". `pid_file` is
    SlurmctldPidFile: on this host slurmdbd's socket lies in the same directory or in the default
    one.
    """
    places: list[tuple[str, int]] = []
    for name in (host, backup_host):
        if name in ("localhost", "127.0.0.1", "::1", os.uname().nodename):
            paths = [socket_file("slurmdbd", pid_file, port), socket_file("slurmdbd", "", port)]
            places += [(path, 0) for path in dict.fromkeys(paths)]
        if name:
            places.append((name, port))
    return places


def controller_hosts(text: str) -> "list[tuple[str, str]]":
    """Return (name, address) of each controller in `name(address),name`, in order."""
    hosts = []
    for word in text.split(","):
        name, _, address = word.strip().rstrip(")").partition("(")
        if name:
            hosts.append((name, address or name))
    return hosts


# --- one connection -----------------------------------------------------------------------


class Lost(Exception):
    """A step of an exchange failed: `step` is 0 to connect, 1 to send, 2 to receive."""

    def __init__(self, step: int, detail: str) -> None:
        super().__init__(detail)
        self.step = step
        self.detail = detail


class Link:
    """A connected stream: sends frames, reads frames."""

    __slots__ = ("connection", "is_unix", "sequence")

    def __init__(self, connection: socket, is_unix: bool) -> None:
        self.connection = connection
        self.is_unix = is_unix
        self.sequence = 0

    def send(
        self, kind: str, body: bytes, credential: bytes, deadline: float, sequence: int = 0
    ) -> int:
        """Send a request, return its sequence, a new one unless given."""
        if not sequence:
            self.sequence += 1
            sequence = self.sequence
        data = pack_frame(kind, sequence, body, 0, credential)
        self._set_timeout(deadline)
        try:
            self.connection.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            # A refusal may have been sent before the connection was cut; it says more.
            try:
                self.receive(monotonic() + 1.0)
            except (OSError, Lost, BadFrame):
                pass
            raise Lost(1, error.strerror or str(error)) from None
        return sequence

    def receive(self, deadline: float, pace_s: float = 0.0) -> "tuple[str, int, int, bytearray]":
        """Return (kind, flags, sequence, body) of the next frame; raise SlurmError for errors.

        Args:
            deadline: in monotonic seconds.
            pace_s: how long after the first part of the frame each further part may take.

        Raises:
            TimeoutError: nothing whole came until the deadline.
            Lost: the connection ended.
            BadFrame: what came is no frame.
        """
        head = self._read(HEAD_BYTES, deadline)
        deadline = max(deadline, monotonic() + pace_s)
        flags, kind_bytes, credential_bytes, body_bytes, sequence = parse_head(head)
        kind = parse_kind(self._read(kind_bytes, deadline))
        if credential_bytes:
            self._read(credential_bytes, deadline)
        if not flags & FLAG_REPLY:
            raise BadFrame("bad_head", "a daemon sent a request")
        body = self._read(body_bytes, deadline, pace_s)
        if flags & FLAG_ERROR:
            fields = unpacked(body)
            code, text = fields.get("code", -1), fields.get("text", "")
            raise SlurmError(int(code), str(text), "", sequence)
        return kind, flags, sequence, body

    def _read(self, count: int, deadline: float, pace_s: float = 0.0) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while count:
            self._set_timeout(deadline)
            try:
                got = self.connection.recv_into(view, count)
            except TimeoutError:
                raise
            except OSError as error:
                raise Lost(2, error.strerror or str(error)) from None
            if not got:
                raise Lost(2, "Connection closed")
            view = view[got:]
            count -= got
            if pace_s:
                deadline = max(deadline, monotonic() + pace_s)
        return data

    def _set_timeout(self, deadline: float) -> None:
        timeout_s = deadline - monotonic()
        if timeout_s <= 0:
            raise TimeoutError
        self.connection.settimeout(timeout_s)

    def close(self) -> None:
        """End the connection."""
        self.connection.close()


def connect_unix(path: str, deadline: float, trusted_user: str) -> Link:
    """Connect to a daemon's Unix socket and make sure that it is a daemon's.

    Raises:
        OSError: nothing answers there, or the process there is not root's, SlurmUser's or the
        caller's.
    """
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    folder = -1
    try:
        connection.settimeout(max(0.001, deadline - monotonic()))
        if len(path) > 107:
            # A socket's address holds 107 bytes; with the directory's descriptor only the name
            # counts.
            directory, _, name = path.rpartition("/")
            folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            path = f"/proc/self/fd/{folder}/{name}"
        connection.connect(path)
        raw = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)
        uid = int.from_bytes(raw[4:8], sys.byteorder)
        if uid not in (0, os.geteuid()) and uid != _uid_of(trusted_user):
            raise PermissionError(1, f"{path}: a process of uid {uid} answers there")
    except OSError:
        connection.close()
        raise
    finally:
        if folder >= 0:
            os.close(folder)
    return Link(connection, True)


def _uid_of(user: str) -> int:
    if user.isdecimal():
        return int(user)
    from pwd import getpwnam

    try:
        return getpwnam(user).pw_uid
    except KeyError:
        return -1


def connect_tcp(address: str, port: int, deadline: float, trusted_user: str = "root") -> Link:
    """Connect to a host.

    On this host the kernel says who answers: any user may listen at the port of a daemon that is
    away, and would be told scripts, variables and tokens.

    Raises:
        OSError: no address of it answers, or a process of this host does that is not root's,
        SlurmUser's or the caller's.
    """
    failure: OSError | None = None
    # As bytes: for a string Python loads its codec of host names, 8 ms where it starts in 9.
    host = address.encode() if address.isascii() else address
    for family, kind, protocol, _, where in getaddrinfo(host, port, 0, SOCK_STREAM):
        connection = socket(family, kind | SOCK_CLOEXEC, protocol)
        try:
            connection.settimeout(max(0.001, deadline - monotonic()))
            connection.connect(where)
            connection.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            connection.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
            _refuse_impostor(connection, trusted_user)
        except OSError as error:
            failure = error
            connection.close()
            continue
        return Link(connection, False)
    raise failure or OSError(113, "No address found")


def _refuse_impostor(connection: socket, trusted_user: str) -> None:
    from pyslurm_ng.base.loopback_user import UNKNOWN, is_of_this_host, user_of_server

    ours, server = connection.getsockname(), connection.getpeername()
    if ours[0] != server[0] and not is_of_this_host(server[0]):
        return
    uid = user_of_server(ours[:2], server[:2])
    if uid in (UNKNOWN, 0, os.geteuid()) or uid == _uid_of(trusted_user):
        return
    if _has_own_user_ids():
        return  # a container: root of the host has another number here
    text = f"a process of uid {uid} answers at port {server[1]}"
    raise PermissionError(1, text if uid >= 0 else "Connection closed")


def _has_own_user_ids() -> bool:
    """Return whether user ids here are not those of the host."""
    try:
        file = os.open("/proc/self/uid_map", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(file, 64).split() != [b"0", b"0", b"4294967295"]
    finally:
        os.close(file)


def unpacked(body: bytearray) -> "dict[str, Any]":
    """Return the map in a reply's body; raise BadFrame when there is none.

    A field that it lacks is one that an older daemon does not know, and is named as such.
    """
    try:
        fields = unpack(body)
    except ValueError as error:
        raise BadFrame("malformed", str(error)) from None
    if not isinstance(fields, dict):
        raise BadFrame("malformed", "a reply is not a map")
    return Row(fields)
