"""H1, H6 and H9 of the review: full state disks, second runs, ids that come again.

Their faults are not a user's to make; tests with clusters of their own have the reproductions. What
a user may try on the way there is here.
"""

from __future__ import annotations

from tests.hostile.attacks import ANY, NEW, REFUSED, Attack, Many, does, submission, tells, tested

SOME = r"accepted|refused"

FULL = (
    tested("the review's: a state disk that is full for long",
           "tests/daemons/test_full_disks.py::test_a_full_state_disk_costs_no_node_and_no_job"),
    tested("shares of the journal", "tests/ctld/test_journal_shares.py"),
    tested("a disk that is full in a submission", "tests/ctld/test_full_disk.py"),
    tested("tokens of one user", "tests/wire/test_auth.py"
           "::test_one_users_tokens_leave_room_for_others"),
    *(does(name, line + "; echo over", "over", "ESCAPED|Traceback") for name, line in (
        ("held jobs with long comments", "for n in $(seq 15); do sbatch -H --comment=\"$(head -c "
         "60000 /dev/zero | tr '\\0' c)\" --wrap true >/dev/null 2>&1; done"),
        ("changes of a comment", "j=$(sbatch --parsable -H --wrap true); for n in $(seq 20); do "
         "scontrol update jobid=$j comment=\"$(head -c 60000 /dev/zero | tr '\\0' $n)\" "
         "2>/dev/null; done"),
        ("arrays of long scripts", "(echo '#!/bin/sh'; head -c 2000000 /dev/zero | tr '\\0' '#') "
         "> l.sh; for n in 1 2 3 4 5; do sbatch -H -a 0-999 l.sh >/dev/null 2>&1; done"),
        ("holding and releasing", "j=$(sbatch --parsable -H --wrap true); for n in $(seq 25); do "
         "scontrol release $j; scontrol hold $j; done 2>/dev/null"),
        ("steps without end", "srun -t1 true; srun -t1 -n8 true; srun -t1 -N2 true"),
        ("tokens without end", "for n in $(seq 30); do scontrol token >/dev/null; done"),
        ("triggers without end", "for n in $(seq 30); do strigger --set --node --down "
         "--program=/bin/true >/dev/null 2>&1; done; strigger --clear --user=games "
         ">/dev/null 2>&1"),
    )),
    tells("a script at its bound, ten times", "SubmitJob", {**submission(flags=1),
          "script": Many(b"#!/bin/sh\n", 400_000)}, SOME),
)  # fmt: skip

TWICE = (
    tested("the review's: a silent node's job runs again",
           "tests/daemons/test_silence_live.py::test_a_run_is_confirmed_by_its_node"),
    tested("credentials of steps", "tests/daemons/test_replays_live.py"
           "::test_a_steps_credential_starts_it_once"),
    tested("partitions, where a run has to be confirmed", "tests/sim/test_partitions.py"
           "::test_no_job_runs_in_two_places[confirmed-False]"),
    *(does(name, "rm -f ran; " + line + "; sleep 1; test $(sort ran 2>/dev/null | uniq -d | wc -l)"
           " = 0 || echo ESCAPED; echo over", "over", "ESCAPED|Traceback") for name, line in (
        ("a requeue at the end", "j=$(sbatch --parsable -t1 -o /dev/null --wrap 'echo "
         "$SLURM_JOB_ID.$SLURM_RESTART_COUNT >> ran'); for n in 1 2 3 4 5; do scontrol requeue $j; "
         "done 2>/dev/null"),
        ("a requeue of itself", "sbatch -W -t1 -o /dev/null --wrap 'echo "
         "$SLURM_JOB_ID.$SLURM_RESTART_COUNT >> ran; scontrol requeue $SLURM_JOB_ID; sleep 2' & "
         "sleep 4; scancel -u games"),
        ("a cancel and a requeue", "j=$(sbatch --parsable -t1 -o /dev/null --wrap 'echo "
         "$SLURM_JOB_ID.$SLURM_RESTART_COUNT >> ran; sleep 5'); sleep 1; scancel $j & scontrol "
         "requeue $j 2>/dev/null; wait"),
        ("a release while it runs", "j=$(sbatch --parsable -t1 -o /dev/null --wrap 'echo "
         "$SLURM_JOB_ID.$SLURM_RESTART_COUNT >> ran; sleep 2'); for n in 1 2 3; do scontrol hold "
         "$j; scontrol release $j; done 2>/dev/null; sleep 2"),
        ("a script that kills its parent", "sbatch -W -t1 -o /dev/null --wrap 'echo "
         "$SLURM_JOB_ID.$SLURM_RESTART_COUNT >> ran; kill -9 $PPID'"),
    )),
    Attack("a request twice", r"(?s)'job_id': (\d+),.*'job_id': \1,", messages=(
        ("slurmctld", "SubmitJob", {**submission(), "request_id": b"the same request"}),
        ("slurmctld", "SubmitJob", {**submission(), "request_id": b"the same request"}))),
    tells("a node's report of an end", "NodeReports", [[[1, "{victim}", 0, 0, 0, 1, 2]], 0],
          r"refused|closed"),
    tells("a word of a node", "NodeWord", [[["{victim}", 0]]], r"refused|closed"),
    tells("an end of a job of another's", "CompleteJob", {"request_id": NEW, "job_id": "{victim}",
          "exit_code": 0}, r"refused|closed"),
)  # fmt: skip

AGAIN = (
    tested("the review's: a state restored from a backup", "tests/ctld/test_history.py"),
    tested("segments from the past", "tests/journal/test_recovery.py"),
    tested("ids behind those of a node", "tests/ctld/nodes/test_sender.py"
           "::test_ids_epochs_and_attempts_go_on_behind_those_of_a_node"),
    does("a job id of one's own choice", "sbatch --jobid={victim} --wrap true", ANY),
    does("a job id in the environment", "SLURM_JOB_ID={victim} srun -t1 true", ANY,
         "ESCAPED|Traceback"),
    does("a job id that has ended", "srun -t1 --jobid=1 true", ANY),
    does("the largest job id", "scontrol show job 4294967294"),
    tells("a cluster that registers", "RegisterCluster", {"cluster": "cluster",
          "control_host": "x", "control_port": 1, "journal_id": "x"}, to="slurmdbd"),
    tells("a journal of a user's", "JournalBatch", {"cluster": "cluster", "journal_id": "x",
          "after": 0, "frames": []}, to="slurmdbd"),
    tells("a journal to be sent again", "RewindJournal", {"cluster": "cluster"},
          r"refused|closed", to="slurmdbd"),
    tells("jobs to be compared", "CompareJobs", {"cluster": "cluster"}, r"refused|closed",
          to="slurmdbd"),
    tells("an archive to be loaded", "ArchiveLoad", {"file": "/etc/passwd"}, REFUSED,
          to="slurmdbd"),
    does("records of another's to be changed", "sacctmgr -i modify job where jobid={victim} set "
         "comment=x", REFUSED + "|Nothing"),
    does("the journal of the controller", "cat {state}/* {state}/*/*; echo over",
         r"Permission denied|No such"),
)  # fmt: skip

CLASSES: dict[str, tuple[Attack, ...]] = {"H1": FULL, "H6": TWICE, "H9": AGAIN}
