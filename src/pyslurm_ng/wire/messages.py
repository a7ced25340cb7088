"""Every message of the wire, and the few that belong to no topic.

Import `message`, `reply`, `decode_request` and `decode_reply` from here: then all rows are in the
table.
"""

from typing import Annotated

import msgspec

from pyslurm_ng.wire import (
    buffer_messages,
    crontab_messages,
    dbd_messages,
    event_messages,
    future_node_messages,
    job_messages,
    node_loss_messages,
    node_messages,
    output_messages,
    query_messages,
    report_messages,
    step_messages,
    stepmgr_messages,
    trigger_messages,
)
from pyslurm_ng.wire.table import (
    DAEMON_ROLES,
    DEFAULT_MAX_BYTES,
    REQUEST_ID_BYTES,
    ROLES,
    MessageError,
    MessageRow,
    OwnerRule,
    RateClass,
    RequestId,
    decode_reply,
    decode_request,
    encode,
    find_row,
    kind_of,
    message,
    reply,
    row,
    rows,
)

__all__ = [
    "DAEMON_ROLES",
    "DEFAULT_MAX_BYTES",
    "REQUEST_ID_BYTES",
    "ROLES",
    "CreateToken",
    "Done",
    "ErrorReply",
    "IssueToken",
    "MessageError",
    "MessageRow",
    "OwnerRule",
    "Ping",
    "Pong",
    "RateClass",
    "Reconfigure",
    "RequestId",
    "Shutdown",
    "TokenCreated",
    "TokenIssued",
    "decode_reply",
    "decode_request",
    "encode",
    "find_row",
    "kind_of",
    "message",
    "reply",
    "row",
    "rows",
]


@message(kind="Ping", roles="user|daemon", max_bytes=1024)
class Ping(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Ask whether a daemon answers, and as what."""


@reply("Pong")
class Pong(msgspec.Struct, frozen=True):
    """`role` is primary, standby, node or accounting; `version` as `-V` prints it."""

    name: str
    role: str
    version: str
    now_us: int


@message(kind="Shutdown", roles="admin", owner_rule="admin", rate="change", max_bytes=1024)
class Shutdown(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol shutdown`: stop the daemon, and with it all slurmd unless `controller_only`."""

    request_id: RequestId
    controller_only: bool = False


@message(kind="Reconfigure", roles="admin", owner_rule="admin", rate="change", max_bytes=1024)
class Reconfigure(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol reconfigure`: read the configuration again; a bad one changes nothing."""

    request_id: RequestId


@reply("Done")
class Done(msgspec.Struct, frozen=True):
    """It was done; `notes` are lines for the user's stderr.

    `refused` is Slurm's number where some of the things named could not be changed; the others are.
    """

    notes: list[str] = []
    refused: int = 0


@reply("ErrorReply", max_bytes=1 << 20)
class ErrorReply(msgspec.Struct, frozen=True):
    """It was refused; `code` is Slurm's error number, `text` one line without a prefix."""

    code: int
    text: str


@message(kind="IssueToken", roles="user", max_bytes=1024)
class IssueToken(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Ask the local daemon, over its Unix socket only, to vouch for the caller's uid.

    `digest` is the 32-byte BLAKE2b of the body that will be sent as `kind` to `audience`.
    `cluster` is the receiver's ClusterName, "" if it is that of the daemon asked.
    """

    audience: Annotated[str, msgspec.Meta(min_length=1, max_length=320)]
    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    digest: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    cluster: Annotated[str, msgspec.Meta(max_length=64)] = ""


@message(kind="CreateToken", roles="user", owner_rule="rule", rate="change", max_bytes=1024)
class CreateToken(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol token`: a bearer token of auth/jwt.

    `user` is whom it is for, "" for the caller; `life_s` of -1 is the usual time, 0 for ever.
    """

    user: Annotated[str, msgspec.Meta(max_length=255)] = ""
    life_s: Annotated[int, msgspec.Meta(ge=-1, le=2**32)] = -1


@reply("TokenCreated", max_bytes=65536)
class TokenCreated(msgspec.Struct, frozen=True):
    """A token for SLURM_JWT."""

    token: str


@reply("TokenIssued", max_bytes=65536)
class TokenIssued(msgspec.Struct, frozen=True):
    """The credential to put in front of that one request."""

    token: bytes


# Named so that the imports do not look unused: each fills the table.
TOPICS = (
    buffer_messages,
    crontab_messages,
    dbd_messages,
    event_messages,
    future_node_messages,
    job_messages,
    node_loss_messages,
    node_messages,
    output_messages,
    query_messages,
    report_messages,
    step_messages,
    stepmgr_messages,
    trigger_messages,
)
