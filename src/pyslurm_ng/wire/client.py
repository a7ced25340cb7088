"""The blocking client of commands: one connection, frames, retries; nothing heavy to import.

Start-up is part of a command's interface, so this module and what it imports are C modules and
builtins: no `socket` (it loads `enum` and `selectors`), no `os` (1 ms of Python; what is used here
is `posix`, which it wraps), no msgspec, no `__future__`.

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
from time import monotonic, sleep

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.kernels.records import pack, unpack
from pyslurm_ng.wire.frame import (
    FLAG_ERROR,
    FLAG_MORE,
    FLAG_REPLY,
    HEAD_BYTES,
    BadFrame,
    pack_frame,
    parse_head,
    parse_kind,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

REQUEST_ID_BYTES = 16
DEFAULT_RUN_DIRECTORY = "/run/slurm"
DEFAULT_SLURMCTLD_PORT = 6817
DEFAULT_DBD_PORT = 6819
DEFAULT_TIMEOUT_S = 10

STANDBY_CODES = (Errno.ESLURM_IN_STANDBY_MODE, Errno.ESLURM_IN_STANDBY_USE_BACKUP)
"""Ask the next controller."""


QUICK_KEYS = (
    "ClusterName",
    "SlurmctldHost",
    "SlurmctldAddr",
    "SlurmctldPort",
    "SlurmctldPidFile",
    "SlurmdPidFile",
    "SlurmUser",
    "AuthType",
    "AuthInfo",
    "MessageTimeout",
    "AccountingStorageHost",
    "AccountingStoragePort",
)
"""What a command must read of slurm.conf to talk to the daemons."""


class SlurmError(Exception):
    """A request failed: Slurm's error number and the line to print after `error: `.

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
    return _slurmctld_socket(_folded(conf))


def _folded(conf: "Mapping[str, Any]") -> "dict[str, str]":
    return {
        key.lower(): ",".join(value) if isinstance(value, list | tuple) else str(value)
        for key, value in conf.items()
        if value is not None
    }


def _slurmctld_socket(conf: "dict[str, str]") -> str:
    pid_file = conf.get("slurmctldpidfile", "/var/run/slurmctld.pid")
    return socket_file("slurmctld", pid_file, _slurmctld_port(conf))


def _slurmctld_port(conf: "dict[str, str]") -> int:
    # A range of ports is allowed there; the first is ours.
    return int(conf.get("slurmctldport", "").split("-")[0] or DEFAULT_SLURMCTLD_PORT)


def controller_hosts(text: str) -> "list[tuple[str, str]]":
    """Return (name, address) of each controller in `name(address),name`, in order."""
    hosts = []
    for word in text.split(","):
        name, _, address = word.strip().rstrip(")").partition("(")
        if name:
            hosts.append((name, address or name))
    return hosts


# --- one connection -----------------------------------------------------------------------


class _Lost(Exception):
    """A step of an exchange failed: `step` is 0 to connect, 1 to send, 2 to receive."""

    def __init__(self, step: int, detail: str) -> None:
        super().__init__(detail)
        self.step = step
        self.detail = detail


class _Link:
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
            # A refusal may have been sent before the connection was cut: it says more.
            try:
                self.receive(monotonic() + 1.0)
            except (OSError, _Lost, BadFrame):
                pass
            raise _Lost(1, error.strerror or str(error)) from None
        return sequence

    def receive(self, deadline: float) -> "tuple[str, int, int, bytearray]":
        """Return (kind, flags, sequence, body) of the next frame; raise SlurmError for errors.

        Raises:
            TimeoutError: nothing whole came until the deadline (monotonic seconds).
            _Lost: the connection ended.
            BadFrame: what came is no frame.
        """
        head = self._read(HEAD_BYTES, deadline)
        flags, kind_bytes, credential_bytes, body_bytes, sequence = parse_head(head)
        kind = parse_kind(self._read(kind_bytes, deadline))
        if credential_bytes:
            self._read(credential_bytes, deadline)
        if not flags & FLAG_REPLY:
            raise BadFrame("bad_head", "a daemon sent a request")
        body = self._read(body_bytes, deadline)
        if flags & FLAG_ERROR:
            fields = _unpacked(body)
            code, text = fields.get("code", -1), fields.get("text", "")
            raise SlurmError(int(code), str(text), "", sequence)
        return kind, flags, sequence, body

    def _read(self, count: int, deadline: float) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while count:
            self._set_timeout(deadline)
            try:
                got = self.connection.recv_into(view, count)
            except TimeoutError:
                raise
            except OSError as error:
                raise _Lost(2, error.strerror or str(error)) from None
            if not got:
                raise _Lost(2, "Connection closed")
            view = view[got:]
            count -= got
        return data

    def _set_timeout(self, deadline: float) -> None:
        left = deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)

    def close(self) -> None:
        self.connection.close()


def _connect_unix(path: str, deadline: float, trusted_user: str) -> _Link:
    """Connect to a daemon's Unix socket and make sure that it is a daemon's.

    Raises:
        OSError: nothing answers there, or a process that is not root's, SlurmUser's or the
        caller's.
    """
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    folder = -1
    try:
        connection.settimeout(max(0.001, deadline - monotonic()))
        if len(path) > 107:
            # An address holds 107 bytes; through the directory's descriptor only the name counts.
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
    return _Link(connection, True)


def _uid_of(user: str) -> int:
    if user.isdigit():
        return int(user)
    from pwd import getpwnam

    try:
        return getpwnam(user).pw_uid
    except KeyError:
        return -1


def _connect_tcp(address: str, port: int, deadline: float) -> _Link:
    """Connect to a host; raise OSError when no address of it answers."""
    failure: OSError | None = None
    for family, kind, protocol, _, where in getaddrinfo(address, port, 0, SOCK_STREAM):
        connection = socket(family, kind | SOCK_CLOEXEC, protocol)
        try:
            connection.settimeout(max(0.001, deadline - monotonic()))
            connection.connect(where)
            connection.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            connection.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
        except OSError as error:
            failure = error
            connection.close()
            continue
        return _Link(connection, False)
    raise failure or OSError(113, "No address found")


# --- the client ---------------------------------------------------------------------------


class Client:
    """Talks to one daemon, by default to the cluster's controller, whichever is in charge.

    Args:
        conf: slurm.conf's words for `QUICK_KEYS`, keys in any case.
        audience: "slurmctld", "slurmdbd" or "slurmd:NODE".
        address: (host, port) of a slurmd; not for the others.
        wait_s: how long to try again while there is no answer; MessageTimeout unless given.
    """

    def __init__(
        self,
        conf: "Mapping[str, Any]",
        audience: str = "slurmctld",
        address: "tuple[str, int] | None" = None,
        wait_s: "float | None" = None,
    ) -> None:
        self._conf = _folded(conf)
        self._audience = audience
        self.timeout_s = float(self._conf.get("messagetimeout", DEFAULT_TIMEOUT_S))
        self.wait_s = self.timeout_s if wait_s is None else wait_s
        self._trusted = self._conf.get("slurmuser", "root")
        self._places = self._list_places(address)
        self._at = 0
        self._link: _Link | None = None
        self._begun: dict[int, tuple[str, bytes]] = {}

    def _list_places(self, address: "tuple[str, int] | None") -> "list[tuple[str, int]]":
        """Return (path, 0) for Unix sockets and (host, port) for TCP, in the order to try."""
        conf = self._conf
        if self._audience == "slurmctld":
            hosts = [host for _, host in controller_hosts(conf.get("slurmctldhost", ""))]
            shared = conf.get("slurmctldaddr", "")  # of whichever controller is in charge
            port = _slurmctld_port(conf)
            places = [(host, port) for host in ([shared] if shared else hosts)]
            return [(_slurmctld_socket(conf), 0), *places]
        if self._audience == "slurmdbd":
            port = int(conf.get("accountingstorageport", DEFAULT_DBD_PORT))
            host = conf.get("accountingstoragehost", "localhost")
            pid_file = conf.get("slurmctldpidfile", "")
            paths = [socket_file("slurmdbd", pid_file, port)]
            if run_directory(pid_file) != DEFAULT_RUN_DIRECTORY:
                paths.append(socket_file("slurmdbd", "", port))
            if host not in ("localhost", "127.0.0.1", "::1", os.uname().nodename):
                paths = []
            return [*((path, 0) for path in paths), (host, port)]
        if address is None:
            raise ValueError(f"{self._audience} needs an address")
        if address[0] in (os.uname().nodename, "localhost", "127.0.0.1", "::1"):
            # That node is this host: its Unix socket needs no credential.
            path = socket_file("slurmd", conf.get("slurmdpidfile", ""), address[1],
                               _slurmctld_port(conf))  # fmt: skip
            return [(path, 0), address]
        return [address]

    # -- requests --------------------------------------------------------------------------

    def call(
        self, kind: str, fields: "dict[str, Any]", timeout_s: "float | None" = None
    ) -> "dict[str, Any]":
        """Send a request and return its answer; again with the same bytes if the answer is lost.

        Raises:
            SlurmError: refused, no connection, or no answer in time.
        """
        return self._exchange(kind, fields, timeout_s)

    def change(
        self, kind: str, fields: "dict[str, Any]", timeout_s: "float | None" = None
    ) -> "dict[str, Any]":
        """`call` for a changing request: adds the random id that makes repeating it harmless."""
        fields.setdefault("request_id", os.urandom(REQUEST_ID_BYTES))
        return self.call(kind, fields, timeout_s)

    def stream(
        self, kind: str, fields: "dict[str, Any]", timeout_s: "float | None" = None
    ) -> "Iterator[dict[str, Any]]":
        """Send a request and yield its answers up to the last one.

        `timeout_s` limits the wait for each; None waits for ever, for allocations and followers.
        A lost connection raises SlurmError: what to do then is the caller's to know.
        """
        sequence = self.begin(kind, fields)
        while True:
            got, reply, is_last = self.receive(timeout_s)
            if got == sequence:
                yield reply
                if is_last:
                    return

    def begin(self, kind: str, fields: "dict[str, Any]") -> int:
        """Send a request without waiting; return the sequence its answers will carry."""
        body = pack(fields)
        deadline = monotonic() + self.timeout_s
        give_up = monotonic() + self.wait_s
        pause_s = 0.02
        while True:
            try:
                link = self._connected(deadline)
                credential = self._credential(link, kind, body)
                sequence = link.send(kind, body, credential, deadline)
                self._begun[sequence] = (kind, body)
                return sequence
            except (_Lost, TimeoutError) as error:
                self.close()
                if monotonic() + pause_s > give_up:
                    raise self._failure(error) from None
            except SlurmError as error:
                if error.code != Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF:
                    raise
                self.close()
                _back_off()
                deadline = monotonic() + self.timeout_s
            sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    def receive(self, timeout_s: "float | None" = None) -> "tuple[int, dict[str, Any], bool]":
        """Return (sequence, answer, whether it is the last) of whichever answer comes next."""
        patience_s = 1e6 if timeout_s is None else timeout_s
        while True:
            if self._link is None:
                raise self._failure(_Lost(2, "not connected"))
            try:
                _, flags, sequence, body = self._link.receive(monotonic() + patience_s)
                reply = _unpacked(body)
            except (_Lost, BadFrame, TimeoutError) as error:
                self.close()
                raise self._failure(error) from None
            except SlurmError as error:
                if error.code != Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF:
                    self._begun.pop(error.sequence, None)
                    raise
                self._begin_again(error.sequence)
                continue
            is_last = not flags & FLAG_MORE
            if is_last:
                self._begun.pop(sequence, None)
            return sequence, reply, is_last

    def _begin_again(self, sequence: int) -> None:
        """Send a request that was told to back off once more; all of them if the connection was."""
        begun = dict(self._begun)
        while True:
            _back_off()
            if not sequence:
                self.close()
            deadline = monotonic() + self.timeout_s
            try:
                link = self._connected(deadline)
                for number, (kind, body) in begun.items():
                    if sequence in (0, number):
                        link.sequence = max(link.sequence, number)
                        link.send(kind, body, self._credential(link, kind, body), deadline, number)
            except (_Lost, TimeoutError) as error:
                self.close()
                raise self._failure(error) from None
            except SlurmError as error:
                if error.code != Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF:
                    raise
                sequence = 0
            else:
                self._begun = begun
                return

    def fileno(self) -> int:
        """Return the descriptor to poll while answers are awaited; -1 when not connected."""
        return -1 if self._link is None else self._link.connection.fileno()

    def local_host(self) -> str:
        """Return our address, as the daemon reaches it; connect if necessary.

        Raises:
            SlurmError: no connection.
        """
        try:
            link = self._connected(monotonic() + self.timeout_s)
        except (_Lost, TimeoutError) as error:
            raise self._failure(error) from None
        return "127.0.0.1" if link.is_unix else str(link.connection.getsockname()[0])

    def close(self) -> None:
        """End the connection; the next request makes a new one."""
        if self._link is not None:
            self._link.close()
            self._link = None
        self._begun.clear()

    # -- how -------------------------------------------------------------------------------

    def _exchange(
        self, kind: str, fields: "dict[str, Any]", timeout_s: "float | None"
    ) -> "dict[str, Any]":
        body = pack(fields)
        patience_s = self.timeout_s if timeout_s is None else timeout_s
        now = monotonic()
        deadline, give_up = now + patience_s, now + min(patience_s, self.wait_s)
        pause_s = 0.02
        standbys = 0
        while True:
            try:
                link = self._connected(deadline)
                sequence = link.send(kind, body, self._credential(link, kind, body), deadline)
                while True:
                    _, flags, got, answer = link.receive(deadline)
                    if got == sequence and not flags & FLAG_MORE:
                        return _unpacked(answer)
            except SlurmError as error:
                if error.code == Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF:
                    if not error.sequence:
                        self.close()
                    _back_off()
                    # It lives: patience begins anew.
                    now = monotonic()
                    deadline, give_up = now + patience_s, now + min(patience_s, self.wait_s)
                    continue
                standbys += 1
                if error.code not in STANDBY_CODES or (
                    standbys >= len(self._places) and monotonic() + pause_s > give_up
                ):
                    raise
                self.close()
                self._at += 1
                if standbys < len(self._places):
                    continue
            except (_Lost, BadFrame, TimeoutError) as error:
                self.close()
                if monotonic() + pause_s > give_up:
                    raise self._failure(error) from None
            sleep(pause_s)
            pause_s = min(2 * pause_s, 0.5)

    def _connected(self, deadline: float) -> _Link:
        """Return the connection, made to the first place that answers, from the last good one."""
        if self._link is not None:
            return self._link
        failure: OSError | None = None
        count = len(self._places)
        for turn in range(self._at, self._at + count):
            place, port = self._places[turn % count]
            try:
                if port:
                    self._link = _connect_tcp(place, port, deadline)
                else:
                    self._link = _connect_unix(place, deadline, self._trusted)
            except OSError as error:
                # A missing socket file is the normal case on other hosts; keep the real reason.
                if failure is None or port:
                    failure = error
                continue
            self._at = turn % count
            return self._link
        detail = failure.strerror or str(failure) if failure else "no address is configured"
        raise _Lost(0, detail)

    def _failure(self, error: "Exception") -> SlurmError:
        """Return Slurm's error for a failed exchange."""
        from pyslurm_ng.base.error_texts import error_text

        detail = ""
        if isinstance(error, BadFrame):
            code, detail = Errno.SLURM_UNEXPECTED_MSG_ERROR, error.text
        elif isinstance(error, _Lost):
            code = Errno.SLURM_COMMUNICATIONS_CONNECTION_ERROR
            if self._audience == "slurmctld":
                code = Errno.SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR
            code, detail = code + error.step, error.detail
        else:
            code = Errno.SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT
        return SlurmError(code, error_text(code), detail)

    # -- credentials -----------------------------------------------------------------------

    def _credential(self, link: _Link, kind: str, body: bytes) -> bytes:
        """Return what proves the caller's uid: nothing on a Unix socket, where the kernel does."""
        if link.is_unix:
            return b""
        digest = body_digest(body)
        if self._conf.get("authtype", "auth/munge").lower() == "auth/munge":
            from pyslurm_ng.wire.munge import MungeError, encode_claims

            try:
                return encode_claims(
                    self._conf.get("authinfo", ""), "user", os.uname().nodename,
                    self._conf.get("clustername", "cluster"), self._audience, kind, digest,
                )  # fmt: skip
            except MungeError as error:
                raise SlurmError(Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR, str(error)) from None
        return self._ask_token(kind, digest)

    def _ask_token(self, kind: str, digest: bytes) -> bytes:
        """Ask a daemon of this cluster on this host for a token."""
        request = {"audience": self._audience, "kind": kind, "digest": digest}
        deadline = monotonic() + self.timeout_s
        for path in self._token_sockets():
            try:
                link = _connect_unix(path, deadline, self._trusted)
            except OSError:
                continue
            try:
                link.send("IssueToken", pack(request), b"", deadline)
                answer = _unpacked(link.receive(deadline)[3])
                return bytes(answer.get("token", b""))
            except (_Lost, BadFrame, TimeoutError):
                continue
            finally:
                link.close()
        raise SlurmError(
            Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR,
            "Protocol authentication error: no slurmd, slurmctld or slurmdbd of this cluster "
            "answers on this host to issue a credential",
        )

    def _token_sockets(self) -> "list[str]":
        """Return Unix sockets of this cluster's daemons on this host."""
        port = _slurmctld_port(self._conf)
        found = []
        directory = run_directory(self._conf.get("slurmdpidfile", ""))
        try:
            for name in os.listdir(directory):
                if name.startswith(f"slurmd-{port}-") and name.endswith(".sock"):
                    found.append(f"{directory}/{name}")
        except OSError:
            pass
        return [*sorted(found), _slurmctld_socket(self._conf)]


def _back_off() -> None:
    """Wait as a daemon asked, a little longer at random so that not all come back at once."""
    sleep(1 + os.urandom(1)[0] / 1024)


def _unpacked(body: bytearray) -> "dict[str, Any]":
    """Return the map in a reply's body; raise BadFrame when there is none."""
    try:
        fields = unpack(body)
    except ValueError as error:
        raise BadFrame("malformed", str(error)) from None
    if not isinstance(fields, dict):
        raise BadFrame("malformed", "a reply is not a map")
    return fields


def body_digest(body: bytes) -> bytes:
    """Return the 32-byte BLAKE2b of a body; `hashlib` would load OpenSSL for it."""
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return blake2b(body, digest_size=32).digest()
