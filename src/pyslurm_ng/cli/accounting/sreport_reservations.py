"""The report of reservations: what jobs used of each, and what was idle."""

from pyslurm_ng.base.units import format_seconds
from pyslurm_ng.cli.accounting.sreport_amounts import date
from pyslurm_ng.cli.accounting.sreport_conditions import Conditions
from pyslurm_ng.cli.accounting.sreport_fields import REPORTS
from pyslurm_ng.cli.accounting.sreport_session import NotAnsweredError, rows_of
from pyslurm_ng.cli.accounting.sreport_sizes import node_names
from pyslurm_ng.cli.accounting.sreport_table import (
    Amount,
    cells,
    choose_columns,
    format_words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.accounting.sreport_session import Session
    from pyslurm_ng.cli.accounting.sreport_table import Cell

    Row = dict[str, Any]


def utilization(session: "Session", words: "list[str]") -> None:
    """Print reservations, a line for each TRES; their times are not cut to those of the report."""
    conditions = Conditions("reservation", words)
    fields = format_words(conditions.texts("format"))
    if "format" not in conditions:
        fields = REPORTS["reservation", "Utilization"].split(",")
        fields.insert(fields.index("Allocated"), "TresName")
    columns, is_good = choose_columns("reservation", fields, is_tree=False)
    if not (conditions.is_good and is_good):
        session.exit_code = 1
    period = session.period(conditions)
    request = {
        "start_s": period.start_s,
        "end_s": period.end_s,
        "clusters": session.clusters(conditions),
        "names": conditions.names("names"),
        "nodes": node_names(conditions.texts("nodes")),
    }
    session.refuse_percent_of_nodes()
    try:
        answer = session.call("ListReservationUsage", request)
    except NotAnsweredError as error:
        raise NotAnsweredError(f"{error}\n Problem with reservation query.") from error
    asked = session.tres(answer["tres"]) if "tres" in session.options else answer["tres"]
    shown_tres = [tres for tres in answer["tres"] if tres in asked]
    printer = session.printer()
    printer.title(
        f"Reservation Utilization {period.title}",
        f"Usage reported in {session.unit.title('TRES')}",
    )
    lines = [
        cells(columns, _cell(row, tres))
        for row in rows_of(answer)
        for tres in shown_tres
        if tres in row["held"]
    ]
    printer.table(columns, lines)


def _cell(row: "Row", tres: str) -> "Any":
    seconds = max(0, row["end_s"] - row["start_s"])
    total = row["held"][tres] * seconds
    used = row["used"].get(tres, 0)
    shown: dict[str, Cell] = {
        "allocated": Amount(used, total),
        "Associations": _listed(row["associations"]),
        "Cluster": row["cluster"],
        "End": date(row["end_s"]),
        "Flags": row["flags"],
        "Idle": Amount(max(0, total - used), total),
        "Name": row["name"],
        "Nodes": row["nodes"],
        "ReservationId": row["id"],
        "Start": date(row["start_s"]),
        "TotalTime": format_seconds(seconds),
        "TresCount": row["held"][tres],
        "TresName": tres,
        "TresTime": format_seconds(total),
    }
    return shown.__getitem__


def _listed(numbers: "list[int]") -> str:
    """Return numbers with a comma on either side, as Slurm does."""
    return f",{','.join(map(str, numbers))}," if numbers else ""
