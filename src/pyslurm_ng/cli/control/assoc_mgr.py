"""scontrol show assoc_mgr: limits and usage as LIMIT(USED), N for no limit."""

from pyslurm_ng.base.numbers import NO_UID
from pyslurm_ng.cli.command import fail, printable, say, split_list, uid_of
from pyslurm_ng.cli.control.session import null
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.control.session import Session

    Row = dict[str, Any]

PARTS = ("users", "assoc", "qos")
_FILTERS = {"user": "users", "users": "users", "account": "accounts", "accounts": "accounts",
            "qos": "qos", "flag": "parts", "flags": "parts"}  # fmt: skip


def show_assoc_mgr(session: "Session", words: "list[str]") -> int:
    """Print the users, associations and QOS that `users= accounts= qos= flags=` select."""
    request: dict[str, list[str]] = {}
    for word in words:
        key, _, value = word.partition("=")
        field = _FILTERS.get(key.lower())
        if field is not None and not value:
            fail(f"No value given for option {key}")
        if field is None:
            fail(f"invalid entity: {word} for keyword:show assoc_mgr")
        request[field] = split_list(value)
    request["parts"] = [part.lower() for part in request.get("parts", ())]
    for part in request["parts"]:
        if part not in PARTS:
            fail(f"invalid flag '{part}', valid options are 'Assoc, QOS, and/or Users'")
    try:
        reply = session.client.call("ShowAssociations", request)
    except SlurmError as error:
        say(f"slurm_load_assoc_mgr_info error: {error.text}")
        return 1
    print("Current Association Manager state")
    printer = _Printer(reply["tres"], reply["cluster_name"], is_oneliner=session.oneliner)
    for part, heading, name in (
        ("users", "User", "users"),
        ("assoc", "Association", "associations"),
        ("qos", "QOS", "QOS"),
    ):
        if not request["parts"] or part in request["parts"]:
            rows = reply["associations" if part == "assoc" else part]
            records = [getattr(printer, part)(row) for row in rows]
            printer.section(heading, name, records)
    return 0


class _Printer:
    """Turns records into lines, for one cluster's TRES."""

    def __init__(self, tres: "list[str]", cluster: str, *, is_oneliner: bool) -> None:
        self._tres = tres
        self._cluster = cluster
        self._is_oneliner = is_oneliner

    def section(self, heading: str, name: str, records: "list[list[str]]") -> None:
        """Print the records of one kind under their heading."""
        gap = "" if self._is_oneliner else "\n"
        if not records:
            print(f"{gap}No {name} currently cached in Slurm.{gap}")
            return
        print(f"{gap}{heading} Records{gap}")
        between = " " if self._is_oneliner else "\n    "
        for lines in records:
            print(between.join(map(printable, lines)))

    def users(self, row: "Row") -> "list[str]":
        """Return the line of a user."""
        return [
            f"UserName={_user(row['name'])} DefAccount={null(row['default_account'])}"
            f" DefWckey={null(row['default_wckey'])} AdminLevel={row['admin_level']}"
        ]

    def assoc(self, row: "Row") -> "list[str]":
        """Return the lines of an association."""
        limits, counted = row["limits"], row["counted"]
        user = _user(row["user"]) if row["user"] else ""
        is_account = row["parent"] and not row["user"]
        parent = f"{row['parent']}({row['parent_id']})" if is_account else ""
        shares = "parent" if row["shares"] < 0 else row["shares"]
        return [
            f"ClusterName={self._cluster} Account={row['account']} UserName={user}"
            f" Partition={row['partition']} Priority={row['priority']} ID={row['assoc_id']}",
            f"SharesRaw/Norm/Level/Factor={shares}/{row['norm_shares']:.2f}/{row['level_shares']}"
            f"/{max(0.0, row['factor']):.2f}",
            f"UsageRaw/Norm/Efctv={counted['usage_s']:.2f}/{row['norm_usage']:.2f}"
            f"/{row['effective_usage']:.2f}",
            f"ParentAccount={parent} Lineage={row['lineage']}"
            f" DefAssoc={'Yes' if row['is_default'] else 'No'}",
            f"{_job_limit('GrpJobs', limits, 'grp_jobs', counted['jobs'])}"
            f" {_job_limit('GrpJobsAccrue', limits, 'grp_jobs_accrue', counted['accruing'])}",
            f"{_job_limit('GrpSubmitJobs', limits, 'grp_submit', counted['submitted'])}"
            f" {_wall(limits, counted)}",
            *self._groups(limits, counted),
            f"{_if_set('MaxJobs', limits, 'max_jobs', counted['jobs'])}"
            f" {_if_set('MaxJobsAccrue', limits, 'max_jobs_accrue', counted['accruing'])}"
            f" {_if_set('MaxSubmitJobs', limits, 'max_submit', counted['submitted'])}"
            f" MaxWallPJ={limits.get('max_wall_min', '')}",
            *_per_job(limits),
            f"MinPrioThresh={limits.get('min_priority', '')}",
            f"Comment={null(row['comment'])}",
        ]

    def qos(self, row: "Row") -> "list[str]":
        """Return the lines of a QOS."""
        limits, counted = row["limits"], row["counted"]
        return [
            f"QOS={row['name']}({row['qos_id']})",
            f"UsageRaw={counted['usage_s']:.6f}",
            f"{_job_limit('GrpJobs', limits, 'grp_jobs', counted['jobs'])}"
            f" {_job_limit('GrpJobsAccrue', limits, 'grp_jobs_accrue', counted['accruing'])}"
            f" {_job_limit('GrpSubmitJobs', limits, 'grp_submit', counted['submitted'])}"
            f" {_wall(limits, counted)}",
            *self._groups(limits, counted),
            f"MaxWallPJ={limits.get('max_wall_min', '')}",
            *_per_job(limits),
            f"MinPrioThresh={limits.get('min_priority', '')} ",
            f"MinTRESPJ={_amounts(limits.get('min_tres_per_job', {}))}",
            f"PreemptMode={_preempt_mode(row['preempt_mode'])}",
            f"Priority={row['priority']}",
            *self._parts("Account", "PA", row["accounts"], limits, (
                "max_jobs_per_account", "", "max_submit_per_account", "max_tres_per_account"
            )),
            *self._parts("User", "PU", row["users"], limits, (
                "max_jobs", "max_jobs_accrue", "max_submit", "max_tres_per_user"
            )),
        ]  # fmt: skip

    def _groups(self, limits: "Row", counted: "Row") -> "list[str]":
        used_min = {name: int(used_s / 60) for name, used_s in counted["tres_s"].items()}
        return [
            f"{key}={self._each(limits.get(field, {}), used)}"
            for key, field, used in (
                ("GrpTRES", "grp_tres", counted["tres"]),
                ("GrpTRESMins", "grp_tres_mins", used_min),
                ("GrpTRESRunMins", "grp_tres_run_mins", counted["run_min"]),
            )
        ]

    def _each(self, most: "dict[str, int]", used: "dict[str, int]") -> str:
        """Return NAME=LIMIT(USED) of all TRES."""
        return ",".join(f"{name}={most.get(name, 'N')}({used.get(name, 0)})" for name in self._tres)

    def _parts(
        self,
        whose: str,
        suffix: str,
        parts: "dict[str, Row]",
        limits: "Row",
        fields: "tuple[str, str, str, str]",
    ) -> "list[str]":
        """Return the usage of each account or user of a QOS, and the limits."""
        most_jobs, most_accruing, most_submitted, most_tres = fields
        lines = []
        for name, counted in parts.items():
            jobs = [
                _job_limit(f"MaxJobs{suffix}", limits, most_jobs, counted["jobs"]),
                _job_limit(f"MaxJobsAccrue{suffix}", limits, most_accruing, counted["accruing"]),
                _job_limit(f"MaxSubmitJobs{suffix}", limits, most_submitted, counted["submitted"]),
            ]
            tres = f"MaxTRES{suffix}={self._each(limits.get(most_tres, {}), counted['tres'])}"
            if self._is_oneliner:
                lines.append(f"{name}={{{' '.join(jobs)} {tres}}}")
            else:
                lines += [f"  {name}", f"    {' '.join(jobs)}", f"    {tres}"]
        if self._is_oneliner:
            return [f"{whose} Limits=", *(lines or [f"No {whose}s"])]
        return [f"{whose} Limits", *(lines or [f"    No {whose}s"])]


def _preempt_mode(mode: str) -> str:
    """Return a QOS's mode; Slurm says OFF if the cluster's mode applies."""
    return mode.upper() if mode.lower() not in ("", "cluster") else "OFF"


def _user(name: str) -> str:
    uid = uid_of(name)
    return f"{name}({uid if uid >= 0 else NO_UID})"


def _job_limit(key: str, limits: "Row", field: str, used: int) -> str:
    return f"{key}={limits.get(field, 'N')}({used})"


def _if_set(key: str, limits: "Row", field: str, used: int) -> str:
    return f"{key}={limits[field]}({used})" if field in limits else f"{key}="


def _wall(limits: "Row", counted: "Row") -> str:
    return f"GrpWall={limits.get('grp_wall_min', 'N')}({counted['wall_min']:.2f})"


def _per_job(limits: "Row") -> "list[str]":
    return [
        f"MaxTRESPJ={_amounts(limits.get('max_tres_per_job', {}))}",
        f"MaxTRESPN={_amounts(limits.get('max_tres_per_node', {}))}",
        f"MaxTRESMinsPJ={_amounts(limits.get('max_tres_mins_per_job', {}))}",
    ]


def _amounts(tres: "dict[str, int]") -> str:
    """Return limits as NAME=LIMIT, limits of 0 included."""
    return ",".join(
        f"{name}={most}M" if name == "mem" else f"{name}={most}" for name, most in tres.items()
    )
