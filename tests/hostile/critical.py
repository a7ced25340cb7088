"""C1 to C5 of the review: one user stops everybody's scheduling, accounting or controller."""

from __future__ import annotations

from pyslurm_ng.wire import messages, table
from pyslurm_ng.wire.frame import pack_head
from tests.hostile.attacks import (
    ANY,
    NEW,
    REFUSED,
    Attack,
    Many,
    does,
    loads,
    sends,
    submission,
    submits,
    tells,
    tested,
)

messages.rows()  # the table knows all kinds from now on
LEAST = -(2**63)
MOST = 2**63 - 1
SOME = r"accepted|refused"


def declared(kind: str, filled: int = 1) -> bytes:
    """Return the beginning of a frame that declares as much as its kind may have."""
    return pack_head(kind, 1, 0, 0, table.row(kind).max_bytes) + b"\x80" * filled


NUMBERS = (
    Attack(
        "the review's: two exclusive jobs of least time",
        messages=tuple(("slurmctld", "SubmitJob", submission(time_limit_min=LEAST, flags=2))
                       for _ in range(2)),
    ),
    submits("most time", time_limit_min=MOST),
    submits("a least time of its own", time_min_min=LEAST),
    submits("a time that no type has", time_limit_min=2**64 - 1),
    submits("a text as time", time_limit_min="1"),
    submits("nodes without end", nodes_min=MOST),
    submits("fewer nodes than none", nodes_min=-1),
    submits("a begin before all time", begin_us=LEAST),
    submits("a begin after all time", SOME, begin_us=MOST),
    submits("a deadline that has passed", REFUSED, deadline_us=1),
    submits("a nice value beyond all", nice=MOST),
    submits("memory of a number that overflows", mem_per_node_mib=MOST),
    submits("memory for each of many CPUs", SOME, mem_per_cpu_mib=2**40, cpus_per_task=2**15,
            ntasks=2**20),
    submits("tasks that overflow together", SOME, ntasks=2**31 - 1, cpus_per_task=2**15),
    submits("delays of booting", delay_boot_min=LEAST),
    submits("segments and switches beyond all", SOME, segment=2**15, switches=2**15,
            switches_wait_s=2**31),
    tells("a change of time to the least", "UpdateJob", {"request_id": NEW, "jobs": ["1"],
          "settings": {"timelimit": str(LEAST)}}),
    does("an array of overflowing limits", "sbatch -a 0-1%9999999999999999999 --wrap true"),
    does("nodes in sizes without end", "sbatch -N 1,2-9999999999999:3 --wrap true"),
)  # fmt: skip

TEXTS = (
    submits("the review's: a comment of 40 MB", comment=Many("c", 40 << 20)),
    submits("extra of 40 MB", extra=Many("c", 40 << 20)),
    submits("a name of 1 MB", name=Many("n", 1 << 20)),
    submits("an output path of 1 MB", std_out=Many("/o", 1 << 19)),
    submits("a submit line of 30 MB", submit_line=Many("s ", 15 << 20)),
    submits("a container path of 1 MB", container=Many("/c", 1 << 19)),
    submits("container options without end", container_options=Many(["mounts=/"], 100_000)),
    submits("a work directory of 20 MB", work_dir=Many("/d", 10 << 20)),
    submits("rlimits without end", rlimits=Many([["CPU", 1, 1]], 100_000)),
    submits("arguments without end", argv=Many(["a"], 10_000_000)),
    tells("a script of 60 MB", "SubmitJob", {**submission(), "script": Many(b"x", 60 << 20)}),
    tells("a name of 20 MB for a step", "CreateStep", {"request_id": NEW, "job_id": 1,
          "name": Many("s", 20 << 20)}, r"refused|closed"),
    tells("changes of 30 MB", "UpdateJob", {"request_id": NEW, "jobs": ["1"],
          "settings": {"comment": Many("z", 30 << 20)}}, r"refused|closed"),
    tells("a note of 1 MB", "NotifyJob", {"job": "1", "text": Many("n", 1 << 20)},
          r"refused|closed"),
    tells("a crontab of 6 MB", "StoreCrontab", {"request_id": NEW, "text": Many("#", 6 << 20)}),
    does("twenty comments as long as allowed",
         "for n in $(seq 20); do sbatch -H --comment=\"$(head -c 65000 /dev/zero | tr '\\0' c)\" "
         "--wrap true; done", SOME + "|Submitted"),
)  # fmt: skip

LONG = "$(printf 'w%.0s' $(seq 2000))"
COLUMNS = (
    does("the review's: a wckey of 200", 'sbatch --wckey=$(printf "w%.0s" $(seq 200)) --wrap true',
         ANY),
    *(does(f"{option} of 2000", f"sbatch {option}={LONG} --wrap true", ANY)
      for option in ("--account", "--qos", "--reservation", "--job-name", "--constraint",
                     "--mcs-label", "--licenses", "--cluster-constraint", "--network",
                     "--container", "--mail-user", "--distribution")),
    submits("a wckey of a megabyte", wckey=Many("w", 1 << 20)),
    submits("characters of four bytes in a name", SOME, name=Many("\U0001f600", 250)),
    submits("a reservation with a NUL", reservation="a\0b"),
    does("a step's name of 2000", f"srun -t1 -J {LONG} true", ANY),
    tested("rows of MariaDB with every field at its bound",
           "tests/dbd/test_message_bounds.py"),
)  # fmt: skip

RESERVED = (
    sends("the review's: four steps of 64 MiB declared", "slurmctld", declared("CreateStep"), 4),
    sends("steps declared, 200 sockets", "slurmctld", declared("CreateStep"), 200),
    sends("submissions declared", "slurmctld", declared("SubmitJob"), 100),
    sends("listings declared", "slurmctld", declared("ShowJobs"), 64),
    sends("launches declared to a node", "slurmd", declared("LaunchStep"), 16),
    sends("files declared to a node", "slurmd", declared("SendFile"), 100),
    sends("records declared to accounting", "slurmdbd", declared("ListJobRecords"), 70),
    sends("batches of a journal declared", "slurmdbd", declared("JournalBatch"), 40),
    sends("half of a submission", "slurmctld", declared("SubmitJob", 20 << 20), 3),
    sends("heads without an end", "slurmctld", b"psng" * 3, 300),
    sends("nothing at all", "slurmctld", b"", 500),
    sends("what is no frame", "slurmctld", b"\xff" * 4096, 50),
    loads("declared lengths, 280 sockets", "declared"),
    loads("half bodies, 200 sockets", "half bodies"),
    loads("2,000 slow clients", "slow"),
    loads("a flood of connections", "connection flood"),
    loads("answers that nobody reads", "unread"),
)  # fmt: skip

YEAR_2100_US = 4_102_444_800_000_000
TIMES = (
    tested("the review's: a start with a clock that is wrong",
           "tests/daemons/test_clock_jumps.py::test_a_host_that_starts_with_a_wrong_clock"),
    tested("clocks far from the records", "tests/ctld/test_clock.py"),
    submits("a begin in the year 2100", SOME, begin_us=YEAR_2100_US),
    submits("a deadline in the year 2100", SOME, deadline_us=YEAR_2100_US),
    does("a begin by word in the year 9999", "sbatch --begin=9999-12-31 --wrap true", ANY),
    does("a change to begin in 1970", "sbatch --parsable -H --wrap true | "
         "xargs -I@ scontrol update jobid=@ starttime=1970-01-01T00:00:01", ANY),
    does("a step in the year 1", "srun -t1 --begin=0001-01-01 true", ANY),
    tells("reports of a node from the year 2100", "NodeReports", {"reports": [],
          "sent_us": YEAR_2100_US}, r"refused|closed"),
    tells("a heartbeat of a user's", "Heartbeat", {}, r"refused|closed"),
    tells("a token for ever", "CreateToken", {"life_s": 2**32}, SOME),
    tells("a token that ended before it began", "CreateToken", {"life_s": -2}),
    does("a reservation of a user's in the past",
         "scontrol create reservation starttime=1980-01-01 duration=1 users=games nodes=ALL"),
    does("a trigger far away", "strigger --set --time --offset=999999999 --program=/bin/true"
         " --jobid=1", ANY),
    does("a crontab of rare days", "echo '59 23 31 12 * true' | scrontab -", ANY),
    does("a job in a time zone of its own", "TZ=/etc/shadow sbatch --begin=now+1hour --wrap true",
         ANY),
)  # fmt: skip

CLASSES: dict[str, tuple[Attack, ...]] = {
    "C1": NUMBERS, "C2": TEXTS, "C3": COLUMNS, "C4": RESERVED, "C5": TIMES,
}  # fmt: skip
