"""Limits of associations and QOS: their names, and how values are read, stored and shown.

A set of limits is a JSON object from canonical key to a number, or to an object of TRES name to
number. A missing limit does not limit.
"""

import json
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.base.tres import TresError, format_tres, parse_tres, tres_name
from pyslurm_ng.base.units import UnitError, format_seconds, parse_time_limit_min
from pyslurm_ng.model.assoc import Limits

Kind = Literal["count", "tres", "wall"]
Known = Callable[[], Container[str]]

_UNKNOWN_TRES = "sacctmgr: error: slurmdb_format_tres_str: no TRES known by type"
Stored = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LimitSpec:
    """One limit: Slurm's name, the kind of its value, its field in `model.assoc.Limits`.

    `is_inherited`: a child without it has its parent's (the Max limits; Grp limits are checked
    at each level of the tree instead).
    """

    name: str
    kind: Kind
    attribute: str
    aliases: tuple[str, ...] = ()
    is_inherited: bool = False


ASSOCIATION_LIMITS = (
    LimitSpec("GrpJobs", "count", "grp_jobs"),
    LimitSpec("GrpJobsAccrue", "count", "grp_jobs_accrue"),
    LimitSpec("GrpSubmitJobs", "count", "grp_submit"),
    LimitSpec("GrpTRES", "tres", "grp_tres"),
    LimitSpec("GrpTRESMins", "tres", "grp_tres_mins"),
    LimitSpec("GrpTRESRunMins", "tres", "grp_tres_run_mins"),
    LimitSpec("GrpWall", "wall", "grp_wall_min"),
    LimitSpec("MaxJobs", "count", "max_jobs", (), True),
    LimitSpec("MaxJobsAccrue", "count", "max_jobs_accrue", (), True),
    LimitSpec("MaxSubmitJobs", "count", "max_submit", (), True),
    LimitSpec("MaxTRESPerJob", "tres", "max_tres_per_job", ("MaxTRES", "MaxTRESPJ"), True),
    LimitSpec("MaxTRESPerNode", "tres", "max_tres_per_node", ("MaxTRESPN",), True),
    LimitSpec(
        "MaxTRESMinsPerJob", "tres", "max_tres_mins_per_job", ("MaxTRESMins", "MaxTRESMinsPJ"), True
    ),
    LimitSpec("MaxTRESRunMins", "tres", "max_tres_run_mins", (), True),
    LimitSpec("MaxWallDurationPerJob", "wall", "max_wall_min", ("MaxWall",), True),
    LimitSpec("MinPrioThreshold", "count", "min_priority", (), True),
)

QOS_LIMITS = (
    *ASSOCIATION_LIMITS[:7],
    LimitSpec("MaxJobsPerUser", "count", "max_jobs", ("MaxJobsPU", "MaxJobs")),
    LimitSpec("MaxJobsAccruePerUser", "count", "max_jobs_accrue", ("MaxJobsAccruePU",)),
    LimitSpec(
        "MaxJobsAccruePerAccount",
        "count",
        "max_jobs_accrue_per_account",
        ("MaxJobsAccruePA", "MaxJobsAccruePerAcct"),
    ),
    LimitSpec(
        "MaxSubmitJobsPerUser",
        "count",
        "max_submit",
        ("MaxSubmitJobsPU", "MaxSubmitPU", "MaxSubmitJobs"),
    ),
    LimitSpec(
        "MaxJobsPerAccount", "count", "max_jobs_per_account", ("MaxJobsPA", "MaxJobsPerAcct")
    ),
    LimitSpec(
        "MaxSubmitJobsPerAccount",
        "count",
        "max_submit_per_account",
        ("MaxSubmitJobsPA", "MaxSubmitPA", "MaxSubmitJobsPerAcct"),
    ),
    LimitSpec("MaxTRESPerJob", "tres", "max_tres_per_job", ("MaxTRES", "MaxTRESPJ")),
    LimitSpec("MaxTRESPerNode", "tres", "max_tres_per_node", ("MaxTRESPN",)),
    LimitSpec("MaxTRESPerUser", "tres", "max_tres_per_user", ("MaxTRESPU",)),
    LimitSpec("MaxTRESPerAccount", "tres", "max_tres_per_account", ("MaxTRESPA", "MaxTRESPerAcct")),
    LimitSpec(
        "MaxTRESMinsPerJob", "tres", "max_tres_mins_per_job", ("MaxTRESMins", "MaxTRESMinsPJ")
    ),
    LimitSpec("MaxTRESRunMinsPerUser", "tres", "max_tres_run_mins", ("MaxTRESRunMinsPU",)),
    LimitSpec(
        "MaxTRESRunMinsPerAccount",
        "tres",
        "max_tres_run_mins_per_account",
        ("MaxTRESRunMinsPA", "MaxTRESRunMinsPerAcct"),
    ),
    LimitSpec("MaxWallDurationPerJob", "wall", "max_wall_min", ("MaxWall",)),
    LimitSpec("MinTRESPerJob", "tres", "min_tres_per_job", ("MinTRES",)),
    LimitSpec("MinPrioThreshold", "count", "min_priority"),
)

SINGLE_TRES = {
    "GrpCPUs": ("GrpTRES", "cpu"),
    "GrpNodes": ("GrpTRES", "node"),
    "GrpMemory": ("GrpTRES", "mem"),
    "GrpCPUMins": ("GrpTRESMins", "cpu"),
    "GrpCPURunMins": ("GrpTRESRunMins", "cpu"),
    "MaxCPUsPerJob": ("MaxTRESPerJob", "cpu"),
    "MaxNodesPerJob": ("MaxTRESPerJob", "node"),
    "MaxCPUMinsPerJob": ("MaxTRESMinsPerJob", "cpu"),
    "MaxCPUsPerUser": ("MaxTRESPerUser", "cpu"),
    "MaxNodesPerUser": ("MaxTRESPerUser", "node"),
    "MinCPUsPerJob": ("MinTRESPerJob", "cpu"),
}
"""Names that are older than TRES and still in use: each is one TRES of a list."""


class LimitValueError(ValueError):
    """A limit's kind does not allow this value; the text is for the user."""


def parse_limit(
    stored: Stored, spec: LimitSpec, text: str, only: str = "", known: Known | None = None
) -> None:
    """Set one limit in `stored` from the words of sacctmgr; -1 clears.

    Args:
        stored: changed in place; a TRES list changes only the TRES it names, and `cpu+=10` or
            `mem-=500` changes an amount by so much.
        only: the one TRES that an older name means, or empty.
        known: returns the TRES that are counted; None: any may be limited.

    Raises:
        LimitValueError: with Slurm's text.
    """
    if spec.kind == "tres":
        amounts = dict(stored.get(spec.name, {}))
        for word in (f"{only}={text}" if only else text).split(","):
            _change(amounts, spec, word.strip())
        if known is not None:
            _check_counted(amounts.keys() - stored.get(spec.name, {}).keys(), known)
        if text == "-1" and not only:
            amounts = {}
        _set(stored, spec.name, amounts or None)
        return
    if text in ("-1", "''", '""'):
        stored.pop(spec.name, None)
        return
    if spec.kind == "wall":
        try:
            minutes = parse_time_limit_min(text)
        except UnitError:
            short = spec.name.removesuffix("DurationPerJob")
            raise LimitValueError(f" Bad {short} time format: {{word}}") from None
        _set(stored, spec.name, None if minutes == INFINITE else minutes)
        return
    _set(stored, spec.name, _number(spec.name, text))


def model_limits(stored: Stored, specs: tuple[LimitSpec, ...]) -> Limits:
    """Return the limits as the controller's model holds them."""
    return Limits(**{spec.attribute: stored[spec.name] for spec in specs if spec.name in stored})


def show_limit(stored: Stored, spec: LimitSpec) -> str:
    """Return a limit as sacctmgr prints it, empty when not set."""
    value = stored.get(spec.name)
    if value is None:
        return ""
    if spec.kind == "tres":
        # A limit of 0 forbids the resource, so it must be shown; other amounts of 0 are not.
        words = [format_tres({name: amount}) or f"{name}=0" for name, amount in value.items()]
        return ",".join(words)
    if spec.kind == "wall":
        return format_seconds(value * 60)
    return str(value)


def show_single(stored: Stored, old_name: str) -> str:
    """Return the value of one of `SINGLE_TRES`, empty when not set."""
    name, tres = SINGLE_TRES[old_name]
    value = stored.get(name, {}).get(tres)
    return "" if value is None else str(value)


def load(text: str) -> Stored:
    """Return the limits of a row's `limits` column."""
    return json.loads(text) if text else {}


def dump(stored: Stored) -> str:
    """Return limits for the `limits` column, always the same text for the same limits."""
    return json.dumps(stored, sort_keys=True, separators=(",", ":"))


def _change(amounts: dict[str, int], spec: LimitSpec, word: str) -> None:
    """Take in one word of a TRES list: `cpu=10`, `cpu=-1`, `cpu+=10` or `cpu-=10`."""
    name, equals, amount = word.partition("=")
    if word in ("", "-1"):
        return
    sign = {"+": 1, "-": -1}.get(name[-1:], 0)
    try:
        if sign:
            by = parse_tres(f"{name[:-1]}={amount}")
            for tres, change in by.items():
                amounts[tres] = amounts.get(tres, 0) + sign * change
                if amounts[tres] < 0:
                    raise TresError(f"{word}: the limit is {amounts[tres] + change}")
        elif equals and amount.strip() == "-1":
            amounts.pop(tres_name(name), None)
        else:
            amounts.update(parse_tres(word))
    except TresError as error:
        plain = f"{name[:-1]}={amount}" if sign else word
        raise LimitValueError(_tres_complaint(spec, plain, error)) from None


def _check_counted(names: Iterable[str], known: Known) -> None:
    """Refuse TRES that nothing counts: a limit of `gres/gup` would never hold anybody back."""
    for name in sorted(names):
        if "/" in name and name not in known():
            raise LimitValueError(f"{_UNKNOWN_TRES} {name}")


def _tres_complaint(spec: LimitSpec, word: str, error: TresError) -> str:
    """Return what Slurm says of a word of a TRES list, where it has words of its own for it."""
    kind, equals, amount = word.partition("=")
    unit = next((char for char in amount if not char.isdecimal()), "")
    if not equals:
        return f"sacctmgr: error: slurmdb_format_tres_str: no TRES id found for {word}"
    try:
        tres_name(kind)
    except TresError:
        return f"{_UNKNOWN_TRES} {kind}"
    if unit.isalpha() and unit.upper() not in "KMGTP":
        return f"sacctmgr: error: Invalid unit type '{unit}'. Possible options are 'KMGTP'"
    return f" Bad {spec.name} value: {error}"


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) >= INFINITE - 1:
        raise LimitValueError(f"sacctmgr: error: Invalid value for {name} ({text})")
    return int(text)


def _set(stored: Stored, name: str, value: Any) -> None:
    if value is None:
        stored.pop(name, None)
    else:
        stored[name] = value
