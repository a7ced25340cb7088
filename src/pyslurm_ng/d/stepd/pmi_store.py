"""What the tasks of a step have put for each other: keys of all, and attributes of this node."""

from pyslurm_ng.d.stepd import pmi_messages
from pyslurm_ng.d.stepd.pmi_messages import BadPmiMessage

_PAIR_BYTES = 256
"""What Python takes for a pair besides its texts."""
_MOST_ATTRIBUTES = 4096


class PmiStore:
    """Keys and their values.

    Args:
        most_bytes: what all of them may take: the memory is the node's, not the job's.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[str, str] = {}
        self._kept_bytes = 0
        self._new: dict[str, str] = {}  # put here since the last fence
        self._attributes: dict[str, str] = {}

    def put(self, key: str, value: str) -> None:
        """Keep a key of a task here. Raises BadPmiMessage."""
        self._new[key] = value
        self._keep({key: value})

    def get(self, key: str) -> "str | None":
        """Return a key's value, if there is one."""
        return self._kept.get(key)

    def take_new(self) -> bytes:
        """Return what was put here since this was called last."""
        new, self._new = self._new, {}
        return pmi_messages.pack_pairs(new)

    def merge(self, data: bytes) -> None:
        """Keep what all nodes have put. Raises BadPmiMessage."""
        try:
            self._keep(pmi_messages.unpack_pairs(data))
        except ValueError as problem:
            raise BadPmiMessage(str(problem)) from None

    def _keep(self, pairs: "dict[str, str]") -> None:
        for key, value in pairs.items():
            before = self._kept.get(key)
            size = -len(before) if before is not None else len(key) + _PAIR_BYTES
            self._kept_bytes += size + len(value)
            if self._kept_bytes > self._most_bytes:
                raise BadPmiMessage(f"all tasks together put more than {self._most_bytes} bytes")
            self._kept[key] = value

    def attribute(self, key: str) -> "str | None":
        """Return an attribute of this node, if it was put."""
        return self._attributes.get(key)

    def put_attribute(self, key: str, value: str) -> None:
        """Keep an attribute of this node. Raises BadPmiMessage."""
        self._attributes[key] = value
        if len(self._attributes) > _MOST_ATTRIBUTES:
            raise BadPmiMessage(f"more than {_MOST_ATTRIBUTES} attributes of a node")
