"""H2 to H5, H7, H8 and H10 of the review: nodes, parsers, ends, supervisors, limits, strangers."""

from __future__ import annotations

from tests.hostile.attacks import (
    ANY,
    NEW,
    Attack,
    Many,
    does,
    loads,
    runs,
    sends,
    submits,
    tells,
    tested,
)

SOME = r"accepted|refused"
INTO = "2>/dev/null && echo ESCAPED"

SPOOL = (
    tested("the review's: a spool that a job fills",
           "tests/daemons/test_full_disks.py::test_a_full_spool_drains_its_node_which_still_obeys"),
    runs("a file beside the script", f"d={{spool}}/n1; (echo x > $d/x) {INTO}; true"),
    does("a batch script that writes beside itself",
         "printf '#!/bin/sh\\n(echo x > $(dirname $0)/x) 2>&1; mkdir $(dirname $0)/d 2>&1; "
         "ln -s / $(dirname $0)/l 2>&1; echo over' > s1; sbatch -W -t1 -o s1.out s1; cat s1.out",
         r"cannot create|Permission denied", "ESCAPED|Traceback"),
    does("a batch script that removes itself",
         "printf '#!/bin/sh\\nrm -f $0 2>&1; chmod 777 $(dirname $0) 2>&1; echo over' > s2; "
         "sbatch -W -t1 -o s2.out s2; cat s2.out", r"over"),
    does("a batch script that lists the spool",
         "printf '#!/bin/sh\\nls $(dirname $0)/.. && echo ESCAPED; echo over' > s3; "
         "sbatch -W -t1 -o s3.out s3; cat s3.out", r"over", "ESCAPED|Traceback"),
    tells("a script of zeros", "SubmitJob", {"request_id": NEW, "request": {"nodes_min": 1},
        "script": Many(b"\0", 1 << 20)}, SOME),
    tells("an environment of 60 MB", "SubmitJob", {"request_id": NEW, "request": {"nodes_min": 1},
          "script": b"#!/bin/sh\n", "environment": Many(b"A=1\0", 15 << 20)}),
    does("twenty scripts of a megabyte", "head -c 1000000 /dev/zero | tr '\\0' '#' > big; "
         "(echo '#!/bin/sh'; cat big) > bigs; for n in $(seq 20); do sbatch -o /dev/null bigs; "
         "done", ANY),
    runs("an open socket of slurmd in the spool", f"cat {{spool}}/*/*.sock {INTO}; true"),
    runs("the lock of the supervisors", f"cat {{spool}}/*/stepd.lock {INTO}; true"),
    runs("files of steps", f"cat {{spool}}/*/step* {INTO}; true"),
    runs("a deep tree in the private directory",
         "python3 -c \"import os\nfor n in range(2000):\n os.mkdir('/tmp/d' if not n else 'd'); "
         "os.chdir('/tmp/d' if not n else 'd')\"; true"),
    runs("many files in the private directory",
         "python3 -c \"for n in range(20000): open(f'/tmp/f{n}', 'w')\"; true"),
)  # fmt: skip

TEXTS = (
    submits("the review's: afterok for 64 KB", SOME, dependency=Many("afterok:1,", 6_000)),
    submits("singletons for 64 KB", SOME, dependency=Many("singleton,", 6_500)),
    submits("features for 40 KB", SOME, constraint=Many("a&", 20_000)),
    submits("a dependency of 20 MB", dependency=Many("afterok:1,", 2 << 20)),
    submits("brackets in brackets", SOME, constraint=Many("(", 2_000)),
    submits("a list of hosts of brackets", node_list=Many("n[1-2]", 20_000)),
    submits("a range of hosts without end", SOME, node_list="n[0-99999999999]"),
    submits("ranges of ranges", SOME, exclude=Many("n[1-9][1-9][1-9],", 1_000)),
    submits("an array of commas", SOME, array=Many("1,", 30_000)),
    submits("an array of steps", SOME, array="0-4000000000:1%1"),
    submits("licenses of commas", SOME, licenses=Many("a:1,", 16_000)),
    submits("resources of commas", SOME, gres=Many("gpu:1,", 10_000)),
    submits("maps of CPUs", SOME, cpu_bind=Many("map_cpu:0x1,", 5_000)),
    submits("a distribution that no one has", SOME, distribution=Many("*:", 30)),
    submits("node sizes of commas", SOME, node_sizes=Many("1,", 30_000)),
    loads("long texts, again and again", "long texts"),
    loads("as many names as allowed", "as many names"),
    loads("arrays that are split", "arrays"),
    loads("changes of all jobs", "changes"),
    does("a host file of brackets", "for n in $(seq 3000); do echo 'n[1-2]'; done > hosts; "
         "srun -t1 -m arbitrary --nodefile=hosts true", ANY),
)  # fmt: skip


def unended(name: str, script: str, options: str = "") -> Attack:
    """Return a job that resists its end; scancel has to end it all the same."""
    line = (
        f"cat > e.sh <<'END'\n#!/bin/sh\n{script}\nEND\n"
        f"j=$(sbatch --parsable -t1 -o /dev/null {options} e.sh) && sleep 1.5 && scancel $j && "
        "for n in $(seq 80); do squeue -h -j $j 2>/dev/null | grep -q . || break; sleep 0.5; done;"
        " squeue -h -j $j 2>/dev/null | grep . || echo gone"
    )
    return does(name, line, "gone")


FIFO = "test -p ff || mkfifo ff; "
ENDS = (
    does("the review's: a FIFO as stderr", FIFO + "j=$(sbatch --parsable -t1 -o /dev/null -e ff "
         "--wrap 'exec 3<>ff; trap \"\" TERM; head -c 60000 /dev/zero >&3; sleep 100'); sleep 1.5; "
         "scancel $j; for n in $(seq 80); do squeue -h -j $j | grep -q . || break; sleep 0.5; done;"
         " squeue -h -j $j | grep . || echo gone", "gone"),
    unended("a FIFO as stdout", FIFO.replace("\n", "") + "sleep 100", "-o ff"),
    unended("a FIFO as stdin", "sleep 100", "-i ff"),
    unended("no TERM", "trap '' TERM INT HUP; while :; do sleep 1; done"),
    unended("a stopped script", "kill -STOP $$; sleep 100"),
    unended("a session of its own", "setsid sleep 100 & setsid sh -c 'trap \"\" TERM; sleep 100'"),
    unended("double forks", "(setsid sh -c 'sleep 100 & sleep 100' &) ; sleep 100"),
    unended("children that come again",
            "while :; do (sh -c 'trap \"\" TERM; sleep 3' &); sleep 0.2; done"),
    unended("a namespace of users and processes",
            "unshare -Urpf --mount-proc sh -c 'trap \"\" TERM; sleep 100' || sleep 100"),
    unended("a stopped child in a namespace", "unshare -Ur sh -c 'kill -STOP $$' || sleep 100"),
    unended("a name that is a state of processes",
            "exec -a x true; python3 -c \"import time; open('/proc/self/comm', 'w').write("
            "') Z 1 1 ('); time.sleep(100)\""),
    unended("a working directory that is gone", "mkdir gone; cd gone; rmdir ../gone; sleep 100"),
    unended("steps that resist", "srun sh -c 'trap \"\" TERM; sleep 100' & srun sleep 100; wait"),
)  # fmt: skip

FRAMES = (
    tested("the review's: frames that supervisors cannot read",
           "tests/d/stepd/test_ends.py::test_malformed_frames_are_answered"),
    tested("random frames", "tests/d/stepd/test_ends.py::test_random_frames"),
    *(does(f"signal {number} to a step", f"srun -t1 sleep 8 & sleep 1.5; "
           f"scancel -s {number} $(squeue -h -u games -o %i | head -1).0; wait; echo over", "over")
      for number in ("0", "64", "100", "4000000000", "-1", "KILL")),
    *(tells(f"signal {number} by the wire", "SignalStep", {"job_id": 1, "step_id": 0,
            "signal": number}, to="slurmd") for number in (-1, 65, 2**32, 2**63 - 1)),
    submits("a mask that is none", umask=2**63 - 1),
    submits("a signal that is none", signal=1000),
    submits("limits of no name", rlimits=[["NONE", -5, 2**63]]),
    tells("a launch without a credential", "LaunchStep", {"credential": b"x", "programs": [{}]},
          to="slurmd"),
    tells("a launch with a credential of zeros", "LaunchStep", {"credential": Many(b"\0", 4096),
          "programs": Many({"argv": ["x"]}, 1000)}, to="slurmd"),
    tells("an order of a controller's", "NodeOrders", {"orders": []}, r"refused|closed",
          to="slurmd"),
    runs("the supervisor's descriptors", f"ls /proc/$PPID/fd {INTO}; "
         f"cat /proc/$PPID/environ {INTO}; cat /proc/$PPID/mem {INTO}; true"),
    runs("signals to the supervisor", f"for s in 9 19 11 6; do kill -$s $PPID {INTO}; done; true"),
)  # fmt: skip

MORE_THAN_THE_NODE = b"""#!/usr/bin/env python3
import os

def hard(pid):
    with open(f"/proc/{pid}/limits") as file:
        rows = file.read().splitlines()[1:]
    return {row[:26].strip(): row[47:68].strip() for row in rows}

def number(text):
    return float("inf") if text == "unlimited" else int(text)

own, nodes = hard("self"), hard(os.getppid())
print([name for name in own if number(own[name]) > number(nodes[name])] and "ESCAPED" or "held")
"""


def raised(name: str, *rlimits: list[object]) -> Attack:
    """Return a job whose limits the message sets, and which compares them with the node's."""
    out = "{work}/" + "".join(char for char in name if char.isalnum())
    request = {"nodes_min": 1, "std_out": out, "work_dir": "/", "time_limit_min": 1}
    job = {
        "request_id": NEW,
        "request": {**request, "rlimits": list(rlimits)},
        "script": MORE_THAN_THE_NODE,
    }
    wait = (
        f"for n in $(seq 60); do grep -q . {out} 2>/dev/null && break; sleep 0.2; done; cat {out}"
    )
    return Attack(
        name, r"refused|held", "ESCAPED|Traceback", words=("sh", "-c", f"{wait} 2>/dev/null; true"),
        messages=(("slurmctld", "SubmitJob", job),),
    )  # fmt: skip


LIMITS = (
    raised("the review's: priorities in real time", ["RTPRIO", 99, 99]),
    raised("nice values", ["NICE", 40, 40]),
    *(raised(f"{name} without end", [name, 2**62, 2**62])
      for name in ("MEMLOCK", "NOFILE", "NPROC", "FSIZE", "STACK", "CORE", "AS", "CPU", "DATA",
                   "RSS")),
    raised("a name in other letters", ["nofile", 2**62, 2**62]),
    raised("infinity as minus one", ["NOFILE", -1, -1]),
    submits("RTPRIO by its number", rlimits=[[14, 99, 99]]),
    submits("NICE by its number", rlimits=[[13, 40, 40]]),
    submits("limits below nothing", rlimits=[["NOFILE", -2, -2]]),
    submits("a limit twice a hundred times", rlimits=Many([["NOFILE", 1024, 1024]], 100)),
    runs("a real-time task", f"chrt -f 99 true {INTO}; true"),
    runs("a lower nice value",
         "b=$(nice); nice -n -20 sh -c 'test $(nice) -lt $0 && echo ESCAPED' $b; true"),
    runs("capabilities", "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo ESCAPED; true"),
    runs("a lower OOM score", f"echo -1000 > /proc/self/oom_score_adj {INTO}; true"),
    runs("control groups", "for g in $(cut -d: -f3 /proc/self/cgroup | sort -u); do "
         f"for c in /sys/fs/cgroup/*; do (echo 0 > $c/cgroup.procs) {INTO}; "
         f"(echo 0 > $c$g/../cgroup.procs) {INTO}; done; done; true"),
)  # fmt: skip

STRANGERS = (
    tested("the review's: parts without end over ZeroMQ",
           "tests/wire/test_endpoint.py::test_random_parts_are_refused_and_the_next_is_served"),
    tested("a stranger without the key", "tests/wire/test_endpoint.py"
           "::test_a_stranger_without_the_key_never_gets_as_far_as_a_message"),
    tested("places of strangers",
           "tests/wire/test_shares.py::test_strangers_have_a_bounded_number_of_places"),
    *(sends(f"{name} to {to}", to, data, 20)
      for to in ("tcp slurmctld", "tcp slurmd", "tcp slurmdbd", "zmq slurmctld")
      for name, data in (("zeros", bytes(1 << 20)), ("ones", b"\xff" * (1 << 20)),
                         ("HTTP", b"GET / HTTP/1.1\r\n" * 5_000),
                         ("a greeting of ZeroMQ", b"\xff" + bytes(8) + b"\x7f\x03" + bytes(53)),
                         ("silence", b""))),
)  # fmt: skip

RECORDS = {"columns": ["job_id"]}
READERS = (
    tells("the review's: 60,000 selectors", "ListJobRecords",
          {**RECORDS, "jobs": Many([[1, 0, 0]], 60_000)}, ANY, to="slurmdbd"),
    loads("a flood of sacct", "sacct"),
    loads("refusals of accounting", "refusals of accounting"),
    does("sacct of all time, forty times", "for n in $(seq 40); do sacct -a -S 1970-01-01 "
         "-o all >/dev/null 2>&1 & done; wait; echo over", "over"),
    tells("names without end", "ListJobRecords", {**RECORDS, "names": Many(["n"], 200_000)},
          to="slurmdbd"),
    tells("columns that are statements", "ListJobRecords", {"columns": ["1; DROP TABLE job"]},
          to="slurmdbd"),
    tells("columns without end", "ListJobRecords", {"columns": Many(["job_id"], 100_000)},
          to="slurmdbd"),
    tells("users without end", "ListJobRecords", {**RECORDS, "uids": Many([1], 100_000)},
          to="slurmdbd"),
    tells("an entity that is none", "ListEntities", {"entity": "x' OR '1'='1"}, to="slurmdbd"),
    tells("usage of all time by hours", "ListUsage",
          {"what": "cluster", "start_s": 0, "end_s": 2**33}, ANY, to="slurmdbd"),
    tells("a file of entities", "LoadFile", {"lines": Many([[1, "User", "games"]], 100_000)},
          "Only administrators", to="slurmdbd"),
    does("sreport of a century", "sreport cluster utilization start=1970-01-01 end=2069-01-01 "
         "-t percent", ANY),
    does("a listing of associations of the world", "sacctmgr -n list assoc tree withd where "
         "user=$(seq -s, 2000)", ANY),
)  # fmt: skip

CLASSES: dict[str, tuple[Attack, ...]] = {
    "H2": SPOOL, "H3": TEXTS, "H4": ENDS, "H5": FRAMES, "H7": LIMITS, "H8": STRANGERS,
    "H10": READERS,
}  # fmt: skip
