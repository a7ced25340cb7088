"""Sections 3 and 4 of the review: rights, spying, impersonation, texts that others read."""

from __future__ import annotations

from tests.hostile.attacks import (
    ANY,
    NEW,
    REFUSED,
    Attack,
    does,
    runs,
    submission,
    submits,
    tells,
)

SOME = r"accepted|refused"
DENIED = r"denied|[Ii]nvalid|not permitted|refused|error|No such|Unable|closed"

RIGHTS = (
    submits("the review's: an administrator's comment", admin_comment="approved by root"),
    submits("a priority", SOME, priority=4_000_000_000),
    submits("another user", uid=0),
    submits("another group", gid=0),
    does("root by option", "sbatch --uid=root --wrap id"),
    does("a nice value below zero", "sbatch --nice=-1000 --wrap true", ANY),
    *(does(name, line) for name, line in (
        ("ends of others' jobs", "scancel {victim}"),
        ("holds of others' jobs", "scontrol hold {victim}"),
        ("changes of others' jobs", "scontrol update jobid={victim} timelimit=1"),
        ("requeues of others' jobs", "scontrol requeue {victim}"),
        ("suspends of others' jobs", "scontrol suspend {victim}"),
        ("notes to others' jobs", "scontrol notify {victim} hi"),
        ("files to others' jobs", "sbcast -j {victim} /etc/passwd /tmp/x"),
        ("steps of others' jobs", "srun --overlap --jobid={victim} id"),
        ("a drain of a node", "scontrol update nodename=n1 state=drain reason=x"),
        ("an end of a node", "scontrol delete nodename=n1"),
        ("a partition", "scontrol create partitionname=mine nodes=ALL"),
        ("a reservation", "scontrol create reservation starttime=now duration=60 users=games "
         "nodes=ALL"),
        ("a new configuration", "scontrol reconfigure"),
        ("an end of the daemon", "scontrol shutdown"),
        ("a debug level", "scontrol setdebug debug5"),
        ("an account", "sacctmgr -i add account mine"),
        ("an administrator", "sacctmgr -i modify user games set adminlevel=admin"),
        ("a coordinator", "sacctmgr -i add coordinator account=users names=games"),
        ("a quality of service", "sacctmgr -i add qos mine priority=100000"),
        ("fair shares", "sacctmgr -i modify account users set fairshare=100000"),
        ("statistics to be forgotten", "sdiag --reset"),
        ("a token of another's", "scontrol token username={other}"),
    )),
)  # fmt: skip

SPYING = (
    does("the review's: processes of another's job", "scontrol listpids {victim}", ANY,
         r"\n\d+ |Traceback"),
    does("another's script", "scontrol write batch_script {victim} -"),
    does("another's job", "scontrol show job {victim}", DENIED, "UserId|Traceback"),
    does("another's job in a list", "squeue -h -j {victim}", ANY, r"^\s*{victim}|Traceback"),
    does("another's records", "sacct -n -a -X -j {victim}", ANY, "sleep|wrap|Traceback"),
    does("another's steps", "scontrol show step {victim}", ANY, "StepId|Traceback"),
    does("another's usage", "sstat -n -j {victim}.batch"),
    does("another's output", "sattach {victim}.batch"),
    does("reasons of another's job", "scontrol explain job {victim}", ANY, r"sleep|Traceback"),
    does("another's dependants", "squeue -h -a -O jobid,username", ANY, "{other}|Traceback"),
    does("priorities of others", "sprio -h -l", ANY, "{other}|Traceback"),
    does("usage of others", "sreport -n user top start=2020-01-01", ANY, "{other}|Traceback"),
    does("files of the daemons", "cat {state}/* {spool}/*/* {etc}/*.key {etc}/slurmdbd.conf "
         "2>/dev/null; echo over", r"\Aover", "BEGIN|secret|Traceback"),
    tells("its script by the wire", "GetBatchScript", {"job": "{victim}"}),
    tells("its script in accounting", "GetJobScript", {"cluster": "cluster", "job_id": "{victim}"},
          r"refused|'text': b?''", to="slurmdbd"),
    tells("its output by the wire", "ReadOutput", {"job": "{victim}"}, REFUSED),
    tells("its usage by the wire", "StepStatus", {"job_id": "{victim}", "step_id": 4294967291},
          to="slurmd"),
    tells("its streams by the wire", "AttachStep", {"job_id": "{victim}", "step_id": 4294967291},
          to="slurmd"),
    tells("a credential for its files", "AskFileCredential", {"job_id": "{victim}"}),
    runs("its environment", "for p in $(pgrep -u {other}); do cat /proc/$p/environ 2>/dev/null "
         "&& echo ESCAPED; done; true"),
    runs("its private directory", "cat /proc/[0-9]*/root/tmp/secret 2>/dev/null && echo ESCAPED; "
         "ls {base}/*/* 2>/dev/null && echo ESCAPED; true"),
)  # fmt: skip

IMPERSONATION = (
    does("the review's: root in a message", "sbatch --uid=0 --gid=0 --wrap id"),
    submits("a user in the body", uid=65534),
    does("a token that is none", "scontrol ping; squeue", ANY, "Traceback",
         SLURM_JWT="eyJhbGciOiJub25lIn0.eyJzdW4iOiJyb290In0."),
    does("a token of zeros", "squeue", ANY, "Traceback", SLURM_JWT="0" * 10_000),
    does("a socket of its own for the controller", "mkdir -p run; python3 -c \"import socket; s = "
         "socket.socket(socket.AF_UNIX); s.bind('run/slurmctld-x.sock')\"; echo over", "over"),
    does("a configuration of its own", "sed 's/^SlurmUser=.*/SlurmUser=games/' {etc}/slurm.conf > "
         "own.conf; SLURM_CONF=$PWD/own.conf scancel {victim}"),
    does("a user of another name", "LOGNAME=root USER=root SLURM_JOB_USER=root scancel {victim}"),
    does("the job's variables of another", "SLURM_JOB_ID={victim} SLURM_JOBID={victim} "
         "srun --overlap id"),
    *(tells(f"a message of daemons: {kind}", kind, {}, r"refused|closed", to)
      for to, kind in (("slurmctld", "RegisterNode"), ("slurmctld", "NodeReports"),
                       ("slurmctld", "RelayWord"), ("slurmd", "NodeOrders"),
                       ("slurmd", "NodeShutdown"), ("slurmd", "NodeReconfigure"),
                       ("slurmdbd", "RegisterCluster"), ("slurmdbd", "JournalBatch"),
                       ("slurmdbd", "Shutdown"))),
    Attack("another's request again", SOME, messages=(
        ("slurmctld", "CancelJobs", {"request_id": b"\0" * 16, "filter": {"jobs": ["{victim}"]}}),
        ("slurmctld", "CancelJobs", {"request_id": b"\0" * 16, "filter": {"jobs": ["{victim}"]}}))),
    Attack("all jobs of all users", SOME, messages=(
        ("slurmctld", "CancelJobs", {"request_id": NEW, "filter": {}}),
        ("slurmctld", "HoldJobs", {"request_id": NEW, "jobs": ["{victim}"]}),
        ("slurmctld", "TopJobs", {"request_id": NEW, "jobs": ["{victim}"]}))),
    tells("a managed step of another's", "CreateStep", {"request_id": NEW, "job_id": "{victim}"}),
    tells("a signal to another's step", "SignalStep", {"job_id": "{victim}",
          "step_id": 4294967291, "signal": 9}, to="slurmd"),
)  # fmt: skip

ODD = "$(printf 'a\\nb\\033[31mred\\r\\033]0;x\\007end')"
CONTROL = r"[\x00-\x08\x0b-\x1f\x7f]|Traceback"
TEXTS = (
    submits("the review's: line breaks to mail", SOME, mail_type=1, name="mail",
            mail_user="a@b\nBcc: evil@x"),
    does("a name with escapes", f'sbatch -H -J "{ODD}" --wrap true; squeue -h -o %j', ANY, CONTROL),
    does("a comment with escapes", f'j=$(sbatch --parsable -H --comment="{ODD}" --wrap true); '
         "scontrol show job $j", ANY, CONTROL),
    does("a directory with escapes", f'mkdir -p "{ODD}"; cd "{ODD}"; j=$(sbatch --parsable -H '
         "--wrap true); scontrol show job $j", ANY, CONTROL),
    does("an output file with escapes", f'j=$(sbatch --parsable -H -o "{ODD}" --wrap true); '
         "scontrol show job $j; sacct -j $j -o all", ANY, CONTROL),
    does("a step's name with escapes", f'srun -t1 -J "{ODD}" true; sacct -n -o jobname%40', ANY,
         CONTROL),
    does("a container with escapes", f'sbatch -H --container="/x{ODD}" --wrap true; '
         "squeue -h -O container:80", ANY, CONTROL),
    does("a script for the site", "sbatch -H -J 'import os' --comment='__import__' --wrap true; "
         "sbatch -H -J '%s%n{}{0}' --wrap true; squeue -h -o %j", ANY),
    does("variables for the site's programs", "sbatch -t1 -W -o /dev/null --wrap true",
         ANY, LD_PRELOAD="", BASH_ENV="{work}/evil", PYTHONSTARTUP="{work}/evil",
         SLURM_JOB_COMMENT="a\nb"),
    does("statements for the database", "sbatch -t1 -W -o /dev/null -J \"x'); DROP TABLE job; --\" "
         "--wrap true; sacct -n -X -o jobname%40 | tail -1", "DROP TABLE"),
    does("a name of surrogates", "sbatch -H -J \"$(printf '\\355\\240\\200\\377')\" --wrap true; "
         "squeue -h -o %j", ANY),
    does("directions of writing", "sbatch -H -J \"$(printf '\\342\\200\\256evil')\" --wrap true; "
         "squeue -h -o %j", ANY),
    tells("a note with escapes", "NotifyJob", {"job": "1", "text": "\x1b[2J\nforged"}, SOME),
    Attack("a line for the log", r"refused|accepted", messages=(
        ("slurmctld", "UpdateJob", {"request_id": NEW, "jobs": ["1\nerror: forged"],
                                    "settings": {"comment\nerror": "x"}}),
        ("slurmctld", "SubmitJob", submission(partition="x\n[2026] fatal: forged")))),
)  # fmt: skip

CLASSES: dict[str, tuple[Attack, ...]] = {
    "rights": RIGHTS, "spying": SPYING, "impersonation": IMPERSONATION, "texts": TEXTS,
}  # fmt: skip
