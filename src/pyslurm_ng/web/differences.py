"""What is not as in Slurm's slurmrestd; docs/reference/compat.md shows it."""

from __future__ import annotations

GENERAL = (
    "A wrong path or method is answered with an error object; Slurm answers a line of text.",
    "A value of a wrong type is 400; Slurm answers 200 with a warning and does nothing.",
    "Bodies are JSON; YAML is for answers. A body has at most 16 MiB.",
    "rest_auth/local serves the user that runs slurmrestd, and root, who acts as that user.",
    "SLURMRESTD_SECURITY=become_user is refused: a token acts for its user.",
    "A YAML document has at most 64 MiB.",
    "`/openapi.json` differs from Slurm's in two places, where Slurm's is not what it answers: "
    "jobs/state has a schema of its own, and job_resources may be null.",
    "`/events` (server-sent events), the pages and `--webhooks` are ours.",
)
DIFFERS: dict[tuple[str, str], str] = {
    ("get", "/slurm/{version}/conf"): "HashValue and ClusterId are 0",
    ("get", "/slurm/{version}/ping/"): "standby controllers are not asked",
    ("get", "/slurm/{version}/resources/{job_id}"): "GRES are left out",
    ("get", "/slurm/{version}/node/{node_name}"): "an unknown node is 404; Slurm answers 200",
    ("post", "/slurm/{version}/job/allocate"): "answers when the job has its nodes, within 30 s",
    ("post", "/slurm/{version}/job/{job_id}"): "script, environment, argv, array and rlimits of a "
    "job that is queued stay; the answer warns of it",
    ("post", "/slurmdb/{version}/accounts/"): "a new account has an association in each cluster",
    ("post", "/slurmdb/{version}/users/"): "a new user needs default/account",
    ("post", "/slurmdb/{version}/job/{job_id}"): "tres is refused",
    ("post", "/slurmdb/{version}/jobs/"): "tres is refused",
    ("post", "/slurmdb/{version}/tres/"): "id and count have no effect",
    ("delete", "/slurmdb/{version}/associations/"): "account or user has to be given",
    ("delete", "/slurmdb/{version}/association/"): "account or user has to be given",
    ("get", "/slurmdb/{version}/users/"): "without_defaults has no effect",
    ("get", "/slurmdb/{version}/associations/"): "usage is left out",
    ("get", "/slurmdb/{version}/wckeys/"): "usage is left out",
    ("get", "/slurmdb/{version}/jobs/"): "flags of the scheduler, exit_code and "
    "reservation choose nothing; scripts and environments are left out",
}
