"""What the nodes of an MPI step exchange over srun: bodies of the frame `step_io.MPI`.

Nodes are numbered in the whole step, over all its components. A node's supervisor sends (`from
stepd`), srun answers (`to stepd`):

| do | from stepd | to stepd |
| --- | --- | --- |
| fence | its part of a collective: `of` says which, `nodes` who take part (none: all), `data`, |
|       | and `more` while further pieces follow | the parts of all nodes, one after another |
| ask | `tag`, `what` (publish, lookup, unpublish), `name`, `owner` (a rank), `data` | |
| told | | `tag`, `status` (0: done), `data` |
| fetch | what a rank has put: `tag`, `node` that has it, `rank` | the same; `node` asks |
| fetched | `tag`, `node` that asked, `status`, `data` | the same; `node` answers |
| abort | `text` for the user, `status`; ends the step | |

A PMIx server sends its supervisor the same, and: ready (`data`: variables of the tasks, each ended
by NUL), failed (`text`), rank (`rank` and, as `status`, BEGAN, FINISHED or ABORTED).
"""

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.kernels.records import pack, unpack
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

PIECE_BYTES = 256 << 10
MOST_GIVEN_BYTES = 4 << 20
"""What one node may give to one collective."""
MOST_GATHERED_BYTES = 128 << 20
"""What all nodes may give to one collective."""
_RANK_BYTES = 64 << 10
_STEP_BYTES = 1 << 20
MOST_OPEN = 1024
"""Collectives, and requests of one node, that may be under way at once."""
MOST_NAME_BYTES = 1024
MOST_VALUE_BYTES = 256 << 10
MOST_TEXT_BYTES = 1024
BEGAN, FINISHED, ABORTED = 1, 2, 3
NONE = -1
"""In place of a rank: no rank in particular."""

_NUMBER, _DATA, _NAME, _TEXT, _SWITCH, _NODES = "number", "data", "name", "text", "switch", "nodes"
_FIELDS: "dict[str, dict[str, str]]" = {
    "fence": {"of": _NAME, "nodes": _NODES, "data": _DATA, "more": _SWITCH},
    "ask": {"tag": _NUMBER, "what": _TEXT, "name": _NAME, "owner": _NUMBER, "data": _DATA},
    "told": {"tag": _NUMBER, "status": _NUMBER, "data": _DATA},
    "fetch": {"tag": _NUMBER, "node": _NUMBER, "rank": _NUMBER, "data": _DATA},
    "fetched": {"tag": _NUMBER, "node": _NUMBER, "status": _NUMBER, "data": _DATA},
    "abort": {"text": _TEXT, "status": _NUMBER},
    "ready": {"data": _DATA},
    "failed": {"text": _TEXT},
    "rank": {"rank": _NUMBER, "status": _NUMBER},
}
_LOW, _HIGH = -(1 << 31), INFINITE


def most_gathered(ranks: int) -> int:
    """Return what a supervisor keeps of what the ranks of a step have put: few keep little."""
    return min(_STEP_BYTES + ranks * _RANK_BYTES, MOST_GATHERED_BYTES)


def pieces(data: bytes) -> "Iterator[tuple[bytes, bool]]":
    """Return data in pieces that fit a frame, and whether more follow."""
    for at in range(0, max(len(data), 1), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES], at + PIECE_BYTES < len(data)


def frame(fields: "dict[str, Any]") -> bytes:
    """Return a whole frame."""
    return step_io.pack(step_io.MPI, step_io.ALL, pack(fields))


def refusal(fields: "dict[str, Any]") -> "dict[str, Any] | None":
    """Return the answer to a request that its node cannot answer any more; None if it is none."""
    if fields["do"] != "fetch":
        return None
    return {
        "do": "fetched", "tag": fields["tag"], "node": fields["node"], "status": 1, "data": b"",
    }  # fmt: skip


def parse(body: bytes) -> "dict[str, Any]":
    """Return the fields of a frame's body.

    Raises:
        BadStepFrame: it does not have the form above.
    """
    try:
        fields = unpack(body)
    except ValueError:
        fields = None
    what = fields.get("do") if isinstance(fields, dict) else None
    shape = _FIELDS.get(what) if isinstance(what, str) else None  # a list has no hash
    if shape is None:
        raise step_io.BadStepFrame("MPI: no message that is known")
    assert isinstance(fields, dict)
    for name, kind in shape.items():
        if not _fits(fields.get(name), kind):
            raise step_io.BadStepFrame(f"MPI: {fields['do']}: {name} is missing or out of bounds")
    return fields


def _fits(value: object, kind: str) -> bool:
    if kind == _NUMBER:
        return isinstance(value, int) and _LOW <= value <= _HIGH
    if kind == _SWITCH:
        return isinstance(value, bool)
    if kind == _TEXT:
        return isinstance(value, str) and len(value) <= MOST_TEXT_BYTES
    if kind == _NODES:
        return isinstance(value, list) and all(
            isinstance(node, int) and 0 <= node <= _HIGH for node in value
        )
    most = MOST_NAME_BYTES if kind == _NAME else step_io.MAX_BODY_BYTES
    return isinstance(value, bytes) and len(value) <= most
