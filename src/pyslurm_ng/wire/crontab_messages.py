"""Crontabs: what scrontab asks the controller."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pyslurm_ng.model import bounds as b
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.wire.table import RequestId, message, reply

MOST_ENTRIES = 200
"""Each is a job that is checked and submitted at once, which takes a fraction of a millisecond."""
MOST_LINES = 8192
_MOST_BYTES = 8 << 20
_MOST_COMMAND_BYTES = 65536
_MOST_ENVIRONMENT_BYTES = 1 << 18

LineNumber = Annotated[int, msgspec.Meta(ge=1, le=MOST_LINES)]


class CronJob(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One entry: its lines, when it is due (five fields of cron), and the job.

    `environment` has `NAME=value` entries, each followed by NUL.
    """

    first_line: LineNumber
    last_line: LineNumber
    times: b.ShortText
    request: JobRequest
    script: Annotated[bytes, msgspec.Meta(min_length=1, max_length=_MOST_COMMAND_BYTES)]
    environment: Annotated[bytes, msgspec.Meta(max_length=_MOST_ENVIRONMENT_BYTES)] = b""


@message(kind="StoreCrontab", roles="user", owner_rule="rule", rate="submit",
         max_bytes=_MOST_BYTES, max_lean_bytes=1 << 20)  # fmt: skip
class StoreCrontab(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scrontab`: replace the caller's crontab; no text removes it."""

    request_id: RequestId
    text: b.LongText
    jobs: Annotated[list[CronJob], msgspec.Meta(max_length=MOST_ENTRIES)] = []


@reply("CrontabStored", max_bytes=1 << 20)
class CrontabStored(msgspec.Struct, frozen=True):
    """The jobs of the entries; or which lines are refused, and why: then nothing has changed."""

    job_ids: list[int] = []
    first_line: int = 0
    last_line: int = 0
    code: int = 0
    problem: str = ""


@message(kind="ShowCrontab", roles="user", max_bytes=1024)
class ShowCrontab(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scrontab -l`: a user's crontab; -1 is the caller's."""

    uid: b.Number32OrNone = -1


@reply("CrontabShown", max_bytes=1 << 20)
class CrontabShown(msgspec.Struct, frozen=True):
    """A crontab as it was typed; no text: there is none."""

    text: str
