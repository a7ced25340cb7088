"""How a command proves its user's uid to a daemon that it reaches over TCP.

Not imported before it is needed: on a Unix socket the kernel says who asks.
"""

import posix as os
from time import monotonic

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.kernels.records import pack
from pyslurm_ng.wire.daemon_link import (
    HOME_PORT,
    Lost,
    SlurmError,
    connect_unix,
    run_directory,
    slurmctld_port,
    slurmctld_socket,
    unpacked,
)
from pyslurm_ng.wire.frame import BadFrame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def credential(
    conf: "dict[str, str]", audience: str, kind: str, body: bytes, timeout_s: float
) -> bytes:
    """Return what proves the caller's uid to `audience`, for this one request.

    Raises:
        SlurmError: neither munge nor a daemon on this host vouches for us.
    """
    digest = body_digest(body)
    if conf.get("authtype", "auth/munge").lower() == "auth/munge":
        from pyslurm_ng.wire.munge import MungeError, encode_claims

        try:
            return encode_claims(
                conf.get("authinfo", ""), "user", os.uname().nodename,
                conf.get("clustername", "cluster"), audience, kind, digest,
            )  # fmt: skip
        except MungeError as error:
            raise SlurmError(Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR, str(error)) from None
    return _ask_token(conf, audience, kind, digest, timeout_s)


def _ask_token(
    conf: "dict[str, str]", audience: str, kind: str, digest: bytes, timeout_s: float
) -> bytes:
    """Ask a daemon of this cluster on this host for a token."""
    request: dict[str, Any] = {"audience": audience, "kind": kind, "digest": digest}
    if HOME_PORT.lower() in conf:
        request["cluster"] = conf.get("clustername", "cluster").lower()
        # The daemons of this host's cluster vouch for its users, also at another cluster.
        conf = {**conf, "slurmctldport": conf[HOME_PORT.lower()]}
    deadline = monotonic() + timeout_s
    for path in _token_sockets(conf):
        try:
            link = connect_unix(path, deadline, conf.get("slurmuser", "root"))
        except OSError:
            continue
        try:
            link.send("IssueToken", pack(request), b"", deadline)
            answer = unpacked(link.receive(deadline)[3])
            return bytes(answer.get("token", b""))
        except (Lost, BadFrame, TimeoutError):
            continue
        finally:
            link.close()
    raise SlurmError(
        Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR,
        "Protocol authentication error: no slurmd, slurmctld or slurmdbd of this cluster "
        "answers on this host to issue a credential",
    )


def _token_sockets(conf: "dict[str, str]") -> "list[str]":
    """Return Unix sockets of this cluster's daemons on this host."""
    port = slurmctld_port(conf)
    sockets = []
    directory = run_directory(conf.get("slurmdpidfile", ""))
    try:
        for name in os.listdir(directory):
            if name.startswith(f"slurmd-{port}-") and name.endswith(".sock"):
                sockets.append(f"{directory}/{name}")
    except OSError:
        pass
    own = slurmctld_socket(conf)
    # root of a controller's host is an administrator there; a node's root is none.
    return [own, *sorted(sockets)] if HOME_PORT.lower() in conf else [*sorted(sockets), own]


def body_digest(body: bytes) -> bytes:
    """Return the 32-byte BLAKE2b of a body; `hashlib` would load OpenSSL for it."""
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return blake2b(body, digest_size=32).digest()
