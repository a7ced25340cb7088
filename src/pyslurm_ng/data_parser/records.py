"""The rows of a reply by field name, and names of uids."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class Table:
    """The rows of a reply: columns by name, fetched by one pass over the packed records."""

    def __init__(self, fields: list[str], blob: bytes, names: "list[str]") -> None:
        from pyslurm_ng.kernels.records import project

        where = {name: index for index, name in enumerate(fields)}
        self.names = names
        self.rows: list[tuple[Any, ...]] = project(blob, [where[name] for name in names])
        self.at = {name: index for index, name in enumerate(names)}

    def dicts(self) -> "list[dict[str, Any]]":
        """Return the rows by field name."""
        return [dict(zip(self.names, row, strict=False)) for row in self.rows]


def slices(blob: bytes, count: int) -> "Iterator[bytes]":
    """Yield concatenated arrays, `count` at a time: rows are ten times as long once unpacked."""
    from msgpack import Unpacker

    unpacker = Unpacker(max_buffer_size=len(blob) or 1)
    unpacker.feed(blob)
    start = at = 0
    while at < len(blob):
        for _ in range(count):
            unpacker.skip()
            at = unpacker.tell()
            if at >= len(blob):
                break
        yield blob[start:at]
        start = at


def user_name(uid: int) -> str:
    """Return the name of a uid, or the number if it has none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def rows_of(answer: "dict[str, Any]") -> "list[dict[str, Any]]":
    """Return the rows of an answer by field name."""
    from pyslurm_ng.kernels.records import project

    names = answer["fields"]
    return [
        dict(zip(names, values, strict=True))
        for values in project(answer["records"], range(len(names)))
    ]
