"""The rows of a reply by field name, and names of uids."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class OlderDaemonError(Exception):
    """A daemon's answer lacks a field that was added after it; `user_line` says so to the user."""

    def __init__(self, name: str) -> None:
        self.user_line = (
            f"the daemon that answered is older than this program, its answer has no field "
            f"{name!r}: upgrade slurmdbd first, then slurmctld, then slurmd, commands last"
        )
        super().__init__(self.user_line)


class Row(dict):  # type: ignore[type-arg]
    """The fields of one row, or of an answer, by name."""

    __slots__ = ()

    def __missing__(self, name: str) -> "NoReturn":
        raise OlderDaemonError(name)


class Table:
    """The rows of a reply: columns by name, fetched by one pass over the packed records."""

    def __init__(self, fields: list[str], blob: bytes, names: "list[str]") -> None:
        from pyslurm_ng.kernels.records import project

        where = Row((name, index) for index, name in enumerate(fields))
        self.names = names
        self.rows: list[tuple[Any, ...]] = project(blob, [where[name] for name in names])
        self.at = {name: index for index, name in enumerate(names)}

    def dicts(self) -> "list[dict[str, Any]]":
        """Return the rows by field name."""
        return [Row(zip(self.names, row, strict=False)) for row in self.rows]


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
        Row(zip(names, values, strict=True))
        for values in project(answer["records"], range(len(names)))
    ]
