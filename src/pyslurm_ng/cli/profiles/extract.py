"""Lists, tables and extremes of a job's profile as text, in the form of Slurm's sh5util."""

from pyslurm_ng.cli.profiles.merge import ProfileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

NOT_THERE = 237
"""sh5util's exit code for a series that no file has."""
_SERIES = ("Energy", "Filesystem", "Network", "Task", "Tasks")
_TIMES = ("ElapsedTime", "EpochTime")


class Table:
    """One series of one node: its rows are numpy's, a field for each column."""

    def __init__(self, step: str, node: str, series: str, rows: "Any") -> None:
        self.step = step
        self.node = node
        self.series = series
        self.rows = rows

    @property
    def columns(self) -> "tuple[str, ...]":
        """The names of the columns, the times first."""
        return tuple(self.rows.dtype.names or ())


def check_series(text: str) -> str:
    """Return a series as files have it: Energy, Filesystem, Network, Tasks or Task_3.

    Raises:
        ProfileError: it is none.
    """
    name = text.capitalize()
    head, _, task = name.partition("_")
    if name not in _SERIES and not (head == "Task" and task.isdecimal() and len(task) < 10):
        raise ProfileError(f'Bad value for --series="{text}"')
    return "Tasks" if name == "Task" else name


def tables(profile: "Any", series: str, node: str = "") -> "Iterator[Table]":
    """Yield the tables of a series of a job's file, by step, node and task.

    Raises:
        ProfileError: no node has the series.
    """
    is_there = False
    steps = profile.get("Steps", {})
    for step in sorted(steps, key=lambda name: (not name.isdecimal(), name.zfill(10))):
        nodes = steps[step].get("Nodes", {})
        for name in nodes:
            for task, rows in _rows_of(nodes[name], series):
                is_there = True
                if not node or node == name:
                    yield Table(step, name, task, rows)
    if not is_there:
        raise ProfileError(f"Series {series} not found", NOT_THERE)


def _rows_of(node: "Any", series: str) -> "Iterator[tuple[str, Any]]":
    """Yield name and rows of the datasets of a series; what is no table is left out."""
    if series.startswith("Task"):
        group = node.get("Tasks", {})
        task_id = series.partition("_")[2]
        for task in sorted(group, key=lambda name: name.zfill(10)):
            if not task_id or task_id == task:
                rows = group[task]
                if getattr(rows, "dtype", None) is not None and rows.dtype.names:
                    yield task, rows[()]
        return
    rows = node.get(series)
    if rows is not None and getattr(rows, "dtype", None) is not None and rows.dtype.names:
        yield series, rows[()]


def items(profile: "Any", series: str) -> "list[str]":
    """Return the columns of a series. Raises ProfileError."""
    return list(next(tables(profile, series)).columns)


def time_series(profile: "Any", series: str, node: str) -> "Iterator[str]":
    """Yield the lines of all samples. Raises ProfileError."""
    head = ""
    for table in tables(profile, series, node):
        if not head:
            head = ",".join((*_lead(series), *table.columns))
            yield head
        for row in table.rows:
            cells = [_cell(row[name]) for name in table.columns]
            yield ",".join((*_place(table, series), *cells))
    if not head:
        yield ",".join((*_lead(series), "ElapsedTime"))


def totals(profile: "Any", series: str, node: str) -> "Iterator[str]":
    """Yield a line for each table, with least, most, sum and mean of its columns.

    Raises:
        ProfileError: no node has the series.
    """
    head = ""
    for table in tables(profile, series, node):
        names = table.columns[1:]
        if not head:
            four = [f"{what}_{name}" for name in names for what in ("Min", "Max", "Sum", "Avg")]
            head = ",".join((*_lead(series), table.columns[0], *four))
            yield head
        if not len(table.rows):
            continue
        cells = [_cell(table.rows[table.columns[0]][-1])]
        for name in names:
            values = table.rows[name]
            mean = float(values.sum()) / len(values)
            cells += [_cell(values.min()), _cell(values.max()), _cell(values.sum()), f"{mean:f}"]
        yield ",".join((*_place(table, series), *cells))
    if not head:
        yield ",".join((*_lead(series), "ElapsedTime"))


def item_lines(profile: "Any", series: str, column: str) -> "tuple[list[str], list[str]]":
    """Return the lines of one item over all nodes sample by sample, and a line on the most of each
    step.

    Raises:
        ProfileError: no node has the series or item.
    """
    by_step: dict[str, list[Table]] = {}
    for table in tables(profile, series):
        by_step.setdefault(table.step, []).append(table)
    places = dict.fromkeys(
        f"{table.series} {table.node}" for step in by_step.values() for table in step
    )
    head = "Step,ElaspedTime,MinNode,MinValue,MaxNode,MaxValue,Sum,Avg,NumNodes"
    lines = [",".join((head, *places))]
    peaks: list[str] = []
    for step, step_tables in by_step.items():
        rows, peak = _step_items(step, step_tables, series, column)
        lines += rows
        peaks.append(peak)
    return lines, peaks


def _step_items(
    step: str, step_tables: "Sequence[Table]", series: str, column: str
) -> "tuple[list[str], str]":
    lines: list[str] = []
    most, most_time, most_mean = 0.0, 0, 0.0
    values = [(table, table.rows[_column(table, series, column)]) for table in step_tables]
    for number in range(max(len(column) for _, column in values)):
        present = [(table, column[number]) for table, column in values if number < len(column)]
        low_table, low = min(present, key=lambda pair: pair[1])
        high_table, high = max(present, key=lambda pair: pair[1])
        total = sum(value for _, value in present)
        mean = float(total) / len(present)
        time = int(present[0][0].rows[_TIMES[0]][number])
        if not number or float(total) > most:
            most, most_time, most_mean = float(total), time, mean
        shown = [_cell(value) for _, value in present]
        lines.append(
            ",".join((step, str(time), low_table.node, _cell(low), high_table.node, _cell(high),
                      _cell(total), f"{mean:f}", str(len(present)), *shown))
        )  # fmt: skip
    is_whole = values[0][1].dtype.kind in "iu"
    shown_most = str(int(most)) if is_whole else f"{most:f}"
    return lines, (
        f"    Step {step} Maximum accumulated {column} Value ({shown_most}) occurred at "
        f"Time={most_time}, Ave Node {most_mean:f}"
    )


def _column(table: Table, series: str, column: str) -> str:
    """Return the column with this name, in any case. Raises ProfileError."""
    for name in table.columns:
        if name.lower() == column.lower():
            return name
    where = f"/Steps/{table.step}/Nodes/{table.node}/{series}"
    raise ProfileError(f"Item {column} not found in series {where}")


def _lead(series: str) -> "tuple[str, ...]":
    return ("Step", "Node", "Series") if series.startswith("Task") else ("Step", "Node")


def _place(table: Table, series: str) -> "tuple[str, ...]":
    is_task = series.startswith("Task")
    return (table.step, table.node, table.series) if is_task else (table.step, table.node)


def _cell(value: "Any") -> str:
    """Return a number as C prints it: whole, or with six digits."""
    return str(int(value)) if value.dtype.kind in "iu" else f"{float(value):f}"
