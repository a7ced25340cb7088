"""Job records of slurmdbd, as sacct and seff ask for them."""

from pyslurm_ng.cli.command import fail, read_conf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from pyslurm_ng.wire.client import Client

    Row = dict[str, Any]

TIMEOUT_S = 600


def connect_to_database(command: str, *more_keys: str) -> "tuple[Client, dict[str, str]]":
    """Return a client of slurmdbd and the keys of slurm.conf; exits if there is no slurmdbd."""
    conf = read_conf(command, "AccountingStorageType", *more_keys)
    if not conf.get("AccountingStorageType", "").endswith("slurmdbd"):
        fail("Slurm accounting storage is disabled")
    from pyslurm_ng.wire.client import Client

    return Client(conf, "slurmdbd", wait_s=0.5), conf


def parts_of(command: str, client: "Client", request: "dict[str, Any]") -> "Any":
    """Yield the parts of the answers, cluster by cluster; exits when slurmdbd refuses."""
    from pyslurm_ng.wire.client import SlurmError

    try:
        for cluster in request["clusters"]:
            yield from client.stream(
                "ListJobRecords", {**request, "clusters": [cluster]}, TIMEOUT_S
            )
    except SlurmError as error:
        fail_for(command, error)


def fail_for(command: str, error: "Any") -> "NoReturn":
    """Say why slurmdbd did not answer, and leave."""
    from pyslurm_ng.base.error_numbers import is_unreachable

    if is_unreachable(error.code):
        detail = error.detail or error.text
        fail(f"{command}: error: Problem talking to the database: {detail}")
    fail(f"{command}: error: {error.text}")


def rows_of(part: "dict[str, Any]", request: "dict[str, Any]") -> "list[tuple[Row, Row | None]]":
    """Return (job, None) and (job, step) in print order; only the steps asked for by -j."""
    from pyslurm_ng.data_parser import records
    from pyslurm_ng.kernels.records import project

    names = part["fields"]
    jobs: list[Row] = [
        records.Row(zip(names, values, strict=True))
        for values in project(part["records"], range(len(names)))
    ]
    steps: dict[int, list[Row]] = {}
    step_names = part["step_fields"]
    if request.get("step_columns"):
        for values in project(part["step_records"], range(len(step_names))):
            steps.setdefault(values[0], []).append(
                records.Row(zip(step_names, values, strict=True))
            )
    only = [wanted_job for wanted_job in request.get("jobs", ()) if wanted_job[3] != -1]
    rows: list[tuple[Row, Row | None]] = []
    for position, job in enumerate(jobs):
        own = steps.get(position, ())
        if only:
            job_words = [wanted_job for wanted_job in request["jobs"] if _names(wanted_job, job)]
            numbers = {wanted_job[3] for wanted_job in job_words}
            if -1 not in numbers:
                rows += [(job, step) for step in own if step["step_id"] in numbers]
                continue
        rows.append((job, None))
        rows += [(job, step) for step in own]
    return rows


def _names(selector: "list[int]", job: "Row") -> bool:
    job_id, task, offset, _, *sluid = selector
    if sluid:
        return bool(job["sluid"] == sluid[0])
    if task >= 0:
        return bool(job["array_job_id"] == job_id and job["array_task_id"] in (task, -1))
    if offset >= 0:
        return bool(job["het_job_id"] == job_id and job["het_job_offset"] == offset)
    return job_id in (job["job_id"], job["array_job_id"], job["het_job_id"])
