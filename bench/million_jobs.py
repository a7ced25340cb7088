#!/usr/bin/env python3
"""sacct over millions of job records in MariaDB, and their removal beside records that come in.

Starts a MariaDB and a cluster of its own in `--dir` and fills the database with jobs, 22,000 a day
up to now, each with a batch step, each third with a step of srun. A directory that is there already
is used as it is, so that it is filled once; `--down` stops its daemons. Commands are measured from
start to exit, the median of `--rounds`.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.model.ids import STEP_BATCH

DAY_S = 86_400
JOBS_A_DAY = 22_000
USERS = 200
ACCOUNTS = 40
"""A divisor of USERS, so that each user has one account."""
FIRST_UID = 20_000
DBD_PID = "run/service/slurmdbd.pid"
USER = "nobody"
"""One of them; sacct refuses users that the host does not know."""
AT_ONCE = 100_000
"""Jobs of one transaction while the database is filled."""
PASSWORD = "bench"
BARS_S = {
    "sacct -j": 0.15,
    "sacct -u -S now-7days": 0.15,
    "sacct of a day": 0.5,
    "sacct -X of a day": 0.077,
    "sacct --json of a day": 3.0,
    "sreport of a year": 0.3,
}
US = 1_000_000

JOB_VALUES = {
    "job_index": "{index}",
    "cluster_id": "{cluster}",
    "job_id": "{index}",
    "submit_us": "{submit_us}",
    "account": f"concat('acct', {{index}} % {ACCOUNTS})",
    "association_id": f"elt(1 + {{index}} % {USERS}, {{associations}})",
    "uid": f"if({{index}} % {USERS}, {FIRST_UID} + {{index}} % {USERS}, "
    f"{pwd.getpwnam(USER).pw_uid})",
    "gid": "100",
    "user": f"if({{index}} % {USERS}, concat('user', {{index}} % {USERS}), '{USER}')",
    "group": "'users'",
    "partition": "'debug'",
    "qos": "'normal'",
    "qos_requested": "''",
    "name": "concat('case-', {index} % 1000, '.sh')",
    "state": "elt(1 + {index} % 10, 'FAILED', 'TIMEOUT', 'CANCELLED', 'COMPLETED', 'COMPLETED', "
    "'COMPLETED', 'COMPLETED', 'COMPLETED', 'COMPLETED', 'COMPLETED')",
    "eligible_us": "{submit_us}",
    "start_us": "{submit_us} + ({index} % 900) * 1000000",
    "end_us": "{end_us}",
    "time_limit_min": "120",
    "exit_code": "if({index} % 10 = 0, 256, 0)",
    "cpus_requested": "1 + {index} % 16",
    "cpus_allocated": "1 + {index} % 16",
    "nodes_requested": "1",
    "nodes_allocated": "1",
    "node_list": "concat('n', 1 + {index} % 500)",
    "mem_mib": "4096",
    "tres_requested": "concat('billing=', 1 + {index} % 16, ',cpu=', 1 + {index} % 16, "
    "',mem=4096,node=1')",
    "tres_allocated": "concat('billing=', 1 + {index} % 16, ',cpu=', 1 + {index} % 16, "
    "',mem=4096,node=1')",
    "summed_tres": "concat('billing=', 1 + {index} % 16, ',cpu=', 1 + {index} % 16, "
    "',mem=4096,node=1')",
    "work_dir": "concat('/home/user', {index} % 200, '/project')",
    "std_out": "'/home/%u/project/slurm-%j.out'",
    "submit_line": "concat('sbatch -n ', 1 + {index} % 16, ' --mem=4G case.sh')",
    "flags": "'StartBackfill'",
    "sluid": "{index} + 1000000000000",
}
STEP_VALUES = {
    "job_index": "{index}",
    "state": "'COMPLETED'",
    "start_us": "{submit_us} + ({index} % 900) * 1000000",
    "end_us": "{end_us}",
    "exit_code": "0",
    "node_list": "concat('n', 1 + {index} % 500)",
    "nodes": "1",
    "tasks": "1",
    "cpus": "1 + {index} % 16",
    "user_cpu_us": "({index} % 3000) * 1000000",
    "system_cpu_us": "({index} % 60) * 1000000",
    "tres_allocated": "concat('cpu=', 1 + {index} % 16, ',mem=4096,node=1')",
    "tres_usage_in_max": "concat('cpu=764000,energy=0,fs/disk=77824,mem=', {index} % 4096, "
    "'000000,pages=12,vmem=0')",
    "tres_usage_in_ave": "concat('cpu=764000,energy=0,fs/disk=77824,mem=', {index} % 4096, "
    "'000000,pages=12,vmem=0')",
    "tres_usage_in_tot": "concat('cpu=764000,energy=0,fs/disk=77824,mem=', {index} % 4096, "
    "'000000,pages=12,vmem=0')",
    "tres_usage_in_max_node": "'cpu=n1,energy=n1,fs/disk=n1,mem=n1,pages=n1,vmem=n1'",
    "tres_usage_in_max_task": "'cpu=0,fs/disk=0,mem=0,pages=0,vmem=0'",
}


def user_of(number: int) -> str:
    """Return the user of the jobs whose number has this remainder."""
    return f"user{number}" if number else USER


def add_associations(server: Server) -> None:
    """Give each user an account, by a file that `sacctmgr dump` could have written."""
    cluster = server.run(["sacctmgr", "-nP", "list", "cluster", "format=cluster"]).strip()
    lines = [f"Cluster - '{cluster}'", "Parent - 'root'"]
    lines += [f"Account - 'acct{number}'" for number in range(ACCOUNTS)]
    for number in range(USERS):
        lines += [f"Parent - 'acct{number % ACCOUNTS}'", f"User - '{user_of(number)}'"]
    file = server.directory / "associations"
    file.write_text("\n".join(lines) + "\n")
    server.run(["sacctmgr", "-i", "load", f"file={file}"])


def association_ids(connection: sa.Connection) -> str:
    """Return the associations of the users, in their order, as words of a statement."""
    table = schema.associations
    ids = dict(
        connection.execute(sa.select(table.c.user, table.c.id).where(table.c.account != "root"))
        .tuples()
        .all()
    )
    return ", ".join(str(ids[user_of(number)]) for number in range(USERS))


def insertion(
    table: sa.Table, values: dict[str, str], cluster: int, words_of: dict[str, str]
) -> str:
    """Return a statement that adds rows for the numbers of jobs in {source}."""
    names, words = [], []
    for column in table.columns:
        default = column.default.arg if column.default is not None else 0
        text = values.get(column.name, repr(default))
        names.append(f"`{column.name}`")
        words.append(text.format(index="seq", cluster=cluster, **words_of))
    return f"INSERT INTO {table.name} ({','.join(names)}) SELECT {','.join(words)} FROM {{source}}"


def fill(engine: sa.Engine, jobs: int, now_s: int) -> None:
    """Store jobs that end at even distances until an hour ago."""
    with engine.connect() as connection:
        connection.exec_driver_sql("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        connection.exec_driver_sql("SET unique_checks = 0")
        cluster = connection.execute(sa.select(schema.clusters.c.id)).scalar_one()
        distance_us = DAY_S * US // JOBS_A_DAY
        first_us = (now_s - 3600) * US - jobs * distance_us
        submit = f"({first_us} - 3600000000 + seq * {distance_us})"
        words_of = {
            "submit_us": submit,
            "end_us": f"({first_us} + seq * {distance_us})",
            "associations": association_ids(connection),
        }
        of_job = insertion(schema.jobs, JOB_VALUES, cluster, words_of)
        batch_id = str(STEP_BATCH - schema.STEP_ID_OFFSET)
        batch = {"step_id": batch_id, "het_component": "-1", "name": "'batch'"}
        inner = {"step_id": "0", "het_component": "-1", "name": "'solver'"}
        of_batch = insertion(schema.steps, STEP_VALUES | batch, cluster, words_of)
        of_srun = insertion(schema.steps, STEP_VALUES | inner, cluster, words_of)
        for first in range(1, jobs + 1, AT_ONCE):
            last = min(first + AT_ONCE - 1, jobs)
            source = f"seq_{first}_to_{last}"
            for statement in (of_job, of_batch):
                connection.exec_driver_sql(statement.format(source=source).replace("%", "%%"))
            third = of_srun.format(source=source) + " WHERE seq % 3 = 0"
            connection.exec_driver_sql(third.replace("%", "%%"))
            connection.commit()
            print(f"{last} jobs stored", file=sys.stderr)
        connection.exec_driver_sql("ANALYZE TABLE jobs, steps")
        connection.exec_driver_sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        connection.commit()


class Server:
    """A MariaDB and a cluster in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port_file = directory / "port"
        self.environment = dict(os.environ)

    def url(self) -> str:
        return f"mysql+pymysql://bench:{PASSWORD}@127.0.0.1:{self.port_file.read_text()}/acct"

    def up(self) -> None:
        """Start both; a directory that is there keeps what it has."""
        is_new = not self.port_file.exists()
        account = "mysql" if any(entry.pw_name == "mysql" for entry in pwd.getpwall()) else "nobody"
        database = self.directory / "db"
        temporary = self.directory / "tmp"  # a server that starts empties a common one
        words = ["--no-defaults", f"--datadir={database}", f"--tmpdir={temporary}"]
        if os.geteuid() == 0:
            words.append(f"--user={account}")
        if is_new:
            self.directory.mkdir(mode=0o755, parents=True)
            for folder in (database, temporary):
                folder.mkdir()
                if os.geteuid() == 0:
                    shutil.chown(folder, account)
            subprocess.run(
                ["mariadb-install-db", *words, "--auth-root-authentication-method=normal"],
                check=True, capture_output=True,
            )  # fmt: skip
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port_file.write_text(str(probe.getsockname()[1]))
        port = self.port_file.read_text()
        subprocess.Popen(
            [shutil.which("mariadbd") or "/usr/sbin/mariadbd", *words, f"--port={port}",
             "--bind-address=127.0.0.1", f"--socket={database}/socket",
             f"--pid-file={database}/pid", "--innodb-buffer-pool-size=1G",
             "--innodb-log-file-size=512M"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._wait_for_database(f"{database}/socket")
        subprocess.run(
            ["pyslurm-ng", "up", "--dir", str(self.directory / "cluster"), "--database",
             f"mysql://bench:{PASSWORD}@127.0.0.1:{port}/acct"],
            check=True,
        )  # fmt: skip
        self.environment["SLURM_CONF"] = str(self.slurm_conf())

    def processor_s(self) -> float:
        """Return the processor time that MariaDB and slurmdbd have used."""
        files = (self.directory / "db" / "pid", self.slurm_conf().parents[1] / DBD_PID)
        ticks = 0
        for file in files:
            stat = Path(f"/proc/{file.read_text().strip()}/stat").read_text()
            words = stat.rpartition(")")[2].split()
            ticks += int(words[11]) + int(words[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def run(self, words: list[str]) -> str:
        """Run a command in the cluster and return what it prints."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"million_jobs: error: {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def slurm_conf(self) -> Path:
        return next((self.directory / "cluster").rglob("slurm.conf"))

    def _wait_for_database(self, path: str) -> None:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            made = subprocess.run(
                ["mariadb", "--no-defaults", f"--socket={path}", "-uroot", "-e",
                 "CREATE USER IF NOT EXISTS bench@'127.0.0.1' IDENTIFIED BY "
                 f"'{PASSWORD}'; GRANT ALL ON *.* TO bench@'127.0.0.1'"],
                capture_output=True,
            )  # fmt: skip
            if made.returncode == 0:
                return
            time.sleep(0.5)
        sys.exit("million_jobs: error: MariaDB does not start")

    def down(self) -> None:
        """Stop both; what they have stored stays."""
        subprocess.run(["pyslurm-ng", "down", "--dir", str(self.directory / "cluster")])
        pid = self.directory / "db" / "pid"
        if pid.exists():
            os.kill(int(pid.read_text()), 15)


def measures(jobs: int, now_s: int) -> dict[str, list[str]]:
    """Return the commands by the name of their bar."""
    day_s = now_s - 10 * DAY_S  # not of the last days, which a cache may have
    begin, end = (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment))
        for moment in (day_s, day_s + DAY_S)
    )
    year = time.localtime(now_s).tm_year
    day = ["sacct", "-a", "-S", begin, "-E", end]
    return {
        "sacct -j": ["sacct", "-j", str(jobs // 2)],
        "sacct -u -S now-7days": ["sacct", "-u", USER, "-S", "now-7days"],
        "sacct of a day": day,
        "sacct -X of a day": [*day, "-X"],
        "sacct --json of a day": [*day, "--json"],
        "sreport of a year": [
            "sreport",
            "cluster",
            "AccountUtilizationByUser",
            "-P",
            f"start={year}-01-01",
            f"end={year + 1}-01-01",
        ],
    }


def measure(server: Server, words: list[str], rounds: int) -> dict[str, float]:
    """Return medians of a command's time and processor time, of the daemons', and its lines."""
    seconds, own, of_daemons = [], [], []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        used_s = server.processor_s()
        begin = time.perf_counter()
        done = subprocess.run(words, env=server.environment, capture_output=True, check=True)
        seconds.append(time.perf_counter() - begin)
        of_daemons.append(server.processor_s() - used_s)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        own.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {
        "seconds": round(statistics.median(seconds), 4),
        "least_s": round(min(seconds), 4),
        "own_cpu_s": round(statistics.median(own), 4),
        "daemons_cpu_s": round(statistics.median(of_daemons), 2),
        "lines": done.stdout.count(b"\n"),
    }


def wait_for_roll_up(engine: sa.Engine) -> None:
    """Wait until slurmdbd has added up all hours, which it would do beside the commands."""
    while True:
        with engine.connect() as connection:
            reached_us = connection.execute(sa.select(schema.last_ran.c.month_us)).scalar() or 0
        if reached_us > (time.time() - 32 * DAY_S) * US:
            return
        print(f"usage is added up until {time.ctime(reached_us // US)}", file=sys.stderr)
        time.sleep(10)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--down", action="store_true", help="stop the daemons of --dir")
    options = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    server = Server(options.dir)
    if options.down:
        server.down()
        return 0
    server.up()
    engine = sa.create_engine(server.url(), isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        stored = connection.exec_driver_sql("SELECT COUNT(*) FROM jobs").scalar_one()
        newest_us = connection.exec_driver_sql("SELECT MAX(end_us) FROM jobs").scalar_one()
    if not stored:
        add_associations(server)
        newest_us = int(time.time() - 3600) * US
        fill(engine, options.jobs, newest_us // US + 3600)
        stored = options.jobs
    wait_for_roll_up(engine)
    for name, words in measures(stored, newest_us // US + 3600).items():
        figures = measure(server, words, options.rounds)
        print(json.dumps({"measure": name, "bar_s": BARS_S[name], **figures}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
