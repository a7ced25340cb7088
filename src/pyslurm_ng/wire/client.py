"""The blocking client of commands: one connection, frames, retries, and only light imports.

Start-up is part of a command's interface, so this module and what it imports are C modules and
builtins: no `socket` (it loads `enum` and `selectors`), no `os` (1 ms of Python; what is used here
is `posix`, which it wraps), no msgspec, no `__future__`.

Where a daemon is found: `wire.daemon_link`; how a user proves its uid: `wire.client_credentials`.
"""

import posix as os
from time import monotonic, sleep

from pyslurm_ng.kernels.records import pack
from pyslurm_ng.wire.daemon_link import (
    HOME_PORT,
    Link,
    Lost,
    SlurmError,
    connect_tcp,
    connect_unix,
    controller_hosts,
    folded,
    slurmctld_port,
    slurmctld_socket,
    slurmdbd_places,
    socket_file,
    unpacked,
)
from pyslurm_ng.wire.frame import ABOUT_CONNECTION, FLAG_MORE, BadFrame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

__all__ = ["QUICK_KEYS", "Client", "SlurmError"]

REQUEST_ID_BYTES = 16
DEFAULT_DBD_PORT = 6819
DEFAULT_TIMEOUT_S = 10
_ELSEWHERE_S = 1.0
_UNKNOWN = ": it may have been done all the same, so look before you repeat it"
_MOST_PATIENCE = 30
"""So many times MessageTimeout a command waits for a daemon that says it is at work on it."""


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
    "AccountingStorageBackupHost",
    "FederationParameters",
    "AccountingStoragePort",
)
"""The keys of slurm.conf that a command must read to talk to the daemons."""


# Slurm's error numbers are imported only when something is wrong, not at each start of a command.


def is_backoff(code: int) -> bool:
    """Return whether the daemon is busy and asks for the same request again in a second."""
    from pyslurm_ng.base.error_numbers import Errno

    return code == Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF


def is_standby(code: int) -> bool:
    """Return whether the next controller is to be asked."""
    from pyslurm_ng.base.error_numbers import Errno

    return code in (Errno.ESLURM_IN_STANDBY_MODE, Errno.ESLURM_IN_STANDBY_USE_BACKUP)


class Client:
    """Talks to one daemon, by default to the controller that is in charge.

    Args:
        conf: slurm.conf's words for `QUICK_KEYS`, keys in any case.
        audience: "slurmctld", "slurmdbd" or "slurmd:NODE".
        address: (host, port) of a slurmd; not for the others.
        wait_s: how long to try again while there is no answer; MessageTimeout unless given, and
            a second for another cluster, which may be one of many.
        bearer: the credential of a token that proves who asks; None for that of SLURM_JWT, b"" for
            none: the process's own user asks.
        backs_off: whether requests that a busy daemon puts off are sent again later.
    """

    def __init__(
        self,
        conf: "Mapping[str, Any]",
        audience: str = "slurmctld",
        address: "tuple[str, int] | None" = None,
        wait_s: "float | None" = None,
        *,
        bearer: "bytes | None" = None,
        backs_off: bool = True,
    ) -> None:
        self._conf = folded(conf)
        self._audience = audience
        self.timeout_s = float(self._conf.get("messagetimeout", DEFAULT_TIMEOUT_S))
        usual_s = _ELSEWHERE_S if HOME_PORT.lower() in self._conf else self.timeout_s
        self.wait_s = usual_s if wait_s is None else wait_s
        self._trusted = self._conf.get("slurmuser", "root")
        self._bearer = b""  # nodes take no tokens
        if audience in ("slurmctld", "slurmdbd"):
            self._bearer = _own_bearer() if bearer is None else bearer
        self._backs_off = backs_off
        self._places = self._list_places(address)
        self._at = 0
        self._link: Link | None = None
        self._begun: dict[int, tuple[str, bytes]] = {}

    def _list_places(self, address: "tuple[str, int] | None") -> "list[tuple[str, int]]":
        """Return (path, 0) for Unix sockets and (host, port) for TCP, in the order to try."""
        conf = self._conf
        if self._audience == "slurmctld":
            hosts = [host for _, host in controller_hosts(conf.get("slurmctldhost", ""))]
            shared = conf.get("slurmctldaddr", "")  # of the controller that is in charge
            port = slurmctld_port(conf)
            addresses = [(host, port) for host in ([shared] if shared else hosts)]
            if HOME_PORT.lower() in conf:
                return addresses
            return [(slurmctld_socket(conf), 0), *addresses]
        if self._audience == "slurmdbd":
            return slurmdbd_places(
                conf.get("accountingstoragehost", "localhost"),
                conf.get("accountingstoragebackuphost", ""),
                int(conf.get("accountingstorageport", DEFAULT_DBD_PORT)),
                conf.get("slurmctldpidfile", ""),
            )
        if address is None:
            raise ValueError(f"{self._audience} needs an address")
        if address[0] in (os.uname().nodename, "localhost", "127.0.0.1", "::1"):
            # That node is this host: its Unix socket needs no credential.
            path = socket_file("slurmd", conf.get("slurmdpidfile", ""), address[1],
                               slurmctld_port(conf))  # fmt: skip
            return [(path, 0), address]
        return [address]

    # -- requests --------------------------------------------------------------------------

    def call(
        self, kind: str, fields: "dict[str, Any]", timeout_s: "float | None" = None
    ) -> "dict[str, Any]":
        """Send a request and return its answer; if that is lost, send the same bytes again.

        Raises:
            SlurmError: refused, no connection, or no answer in time.
        """
        return self._exchange(kind, fields, timeout_s)

    def change(
        self, kind: str, fields: "dict[str, Any]", timeout_s: "float | None" = None
    ) -> "dict[str, Any]":
        """`call` for a changing request: adds the random id that makes repeating it harmless.

        Raises:
            SlurmError: as `call`; the text says so where the daemon may have done what was asked.
                Also where some of the things named could not be changed, and the others are.
        """
        fields.setdefault("request_id", os.urandom(REQUEST_ID_BYTES))
        reply = self.call(kind, fields, timeout_s)
        code = reply.get("refused")
        if isinstance(code, int) and code:
            raise _refusal(code)
        return reply

    def stream(
        self, kind: str, fields: "dict[str, Any]", timeout_s: "float | None" = None
    ) -> "Iterator[dict[str, Any]]":
        """Send a request and yield its answers up to the last one.

        `timeout_s` limits the wait for each; None waits for ever, for allocations and followers.
        A lost connection raises SlurmError, since only the caller knows what to do then.
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
        body = packed(fields)
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
            except (Lost, TimeoutError) as error:
                self.close()
                if monotonic() + pause_s > give_up:
                    raise _failure(self._audience, error) from None
            except SlurmError as error:
                if not self._is_put_off(error):
                    raise
                self.close()
                _back_off()
                deadline = monotonic() + self.timeout_s
            sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    def receive(self, timeout_s: "float | None" = None) -> "tuple[int, dict[str, Any], bool]":
        """Return (sequence, answer, whether it is the last) of the next answer to any request."""
        patience_s = 1e6 if timeout_s is None else timeout_s
        while True:
            if self._link is None:
                raise _failure(self._audience, Lost(2, "not connected"))
            try:
                _, flags, sequence, body = self._link.receive(monotonic() + patience_s)
                if sequence == ABOUT_CONNECTION:
                    continue  # the daemon is at work on a request
                reply = unpacked(body)
            except (Lost, BadFrame, TimeoutError) as error:
                self.close()
                raise _failure(self._audience, error) from None
            except SlurmError as error:
                if not self._is_put_off(error):
                    self._begun.pop(error.sequence, None)
                    raise
                self._begin_again(error.sequence)
                continue
            is_last = not flags & FLAG_MORE
            if is_last:
                self._begun.pop(sequence, None)
            return sequence, reply, is_last

    def _begin_again(self, sequence: int) -> None:
        """Send a request again that was told to back off; all, if the whole connection was told."""
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
            except (Lost, TimeoutError) as error:
                self.close()
                raise _failure(self._audience, error) from None
            except SlurmError as error:
                if not is_backoff(error.code):
                    raise
                sequence = 0
            else:
                self._begun = begun
                return

    def fileno(self) -> int:
        """Return the descriptor to poll while answers are awaited; -1 when not connected."""
        return -1 if self._link is None else self._link.connection.fileno()

    def local_host(self) -> str:
        """Return the address by which the daemon can reach us; connect if necessary.

        Raises:
            SlurmError: no connection.
        """
        try:
            link = self._connected(monotonic() + self.timeout_s)
        except (Lost, TimeoutError) as error:
            raise _failure(self._audience, error) from None
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
        body = packed(fields)
        patience_s = self.timeout_s if timeout_s is None else timeout_s
        times, pace_s = (_MOST_PATIENCE, patience_s) if timeout_s is None else (1, 0.0)
        wait_s = min(patience_s, self.wait_s)
        since = monotonic()
        latest = since + (times - 1) * patience_s
        pause_s = 0.02
        standbys = 0
        is_sent = False
        while True:
            try:
                until = since + patience_s
                link = self._connected(until)
                sequence = link.send(kind, body, self._credential(link, kind, body), until)
                is_sent = True
                while True:
                    _, flags, got, answer = link.receive(since + patience_s, pace_s)
                    if got == sequence and not flags & FLAG_MORE:
                        return unpacked(answer)
                    # It is at work on the request, so waiting begins again.
                    since = min(monotonic(), latest)
            except SlurmError as error:
                if self._is_put_off(error):
                    if not error.sequence:
                        self.close()
                    _back_off()
                    since = monotonic()  # it lives: the time to wait begins again
                    continue
                standbys += 1
                if not is_standby(error.code) or (
                    standbys >= len(self._places) and monotonic() + pause_s > since + wait_s
                ):
                    raise
                self.close()
                self._at += 1
                if standbys < len(self._places):
                    continue
            except (Lost, BadFrame, TimeoutError) as error:
                self.close()
                if monotonic() + pause_s > since + wait_s:
                    may_be_done = is_sent and "request_id" in fields
                    raise _failure(self._audience, error, may_be_done=may_be_done) from None
            sleep(pause_s)
            pause_s = min(2 * pause_s, 0.5)

    def _is_put_off(self, error: SlurmError) -> bool:
        """Return whether the same request is to be sent again in a second."""
        return self._backs_off and is_backoff(error.code)

    def _connected(self, deadline: float) -> Link:
        """Return a connection to the first address that answers; the last good one comes first."""
        if self._link is not None:
            return self._link
        failure: OSError | None = None
        count = len(self._places)
        for turn in range(self._at, self._at + count):
            address, port = self._places[turn % count]
            try:
                if port:
                    self._link = connect_tcp(address, port, deadline, self._trusted)
                else:
                    self._link = connect_unix(address, deadline, self._trusted)
            except OSError as error:
                # A missing socket file is the normal case on other hosts; keep the real reason.
                if failure is None or port:
                    failure = error
                continue
            self._at = turn % count
            return self._link
        detail = failure.strerror or str(failure) if failure else "no address is configured"
        raise Lost(0, detail)

    def _credential(self, link: Link, kind: str, body: bytes) -> bytes:
        """Return a proof of the caller's uid; b"" on a Unix socket, where the kernel proves it."""
        if self._bearer:
            return self._bearer
        if link.is_unix:
            return b""
        from pyslurm_ng.wire.client_credentials import credential

        return credential(self._conf, self._audience, kind, body, self.timeout_s)


def packed(fields: "dict[str, Any]") -> bytes:
    """Return the body of a request.

    Raises:
        SlurmError: it holds what no message can hold: a number beyond 64 bits, or bytes of a
            command line that are not UTF-8.
    """
    try:
        return pack(fields)
    except UnicodeEncodeError as error:
        from pyslurm_ng.base.error_numbers import Errno

        word = error.object.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        text = f"'{word}' is no UTF-8 text"
        raise SlurmError(Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH, text) from None
    except ValueError as error:
        from pyslurm_ng.base.error_numbers import Errno

        raise SlurmError(Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH, str(error)) from None


def _refusal(code: int) -> SlurmError:
    """Return the error of things that could not be changed, while others of the request are."""
    from pyslurm_ng.base.error_texts import error_text

    return SlurmError(code, error_text(code))


def _failure(audience: str, error: "Exception", *, may_be_done: bool = False) -> SlurmError:
    """Return Slurm's error for a failed exchange; it says so if a change may have been done."""
    from pyslurm_ng.base.error_numbers import Errno
    from pyslurm_ng.base.error_texts import error_text

    detail = ""
    if isinstance(error, BadFrame):
        code, detail = Errno.SLURM_UNEXPECTED_MSG_ERROR, error.text
    elif isinstance(error, Lost):
        code = Errno.SLURM_COMMUNICATIONS_CONNECTION_ERROR
        if audience == "slurmctld":
            code = Errno.SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR
        code, detail = code + error.step, error.detail
    else:
        code = Errno.SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT
    return SlurmError(code, error_text(code) + _UNKNOWN * may_be_done, detail)


def _own_bearer() -> bytes:
    """Return the credential of SLURM_JWT, b"" without one."""
    token = os.environ.get(b"SLURM_JWT", b"")
    if not token:
        return b""
    from pyslurm_ng.wire.bearer import bearer_credential

    return bearer_credential(token.decode("ascii", "replace"))


def _back_off() -> None:
    """Wait as a daemon asked, plus a random time so that commands do not all come back together."""
    sleep(1 + os.urandom(1)[0] / 1024)
