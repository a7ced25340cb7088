"""What came later: events, steps that a job manages, logins, output read on nodes, REST."""

from __future__ import annotations

import base64
import json

from tests.hostile.attacks import ANY, NEW, Attack, Many, does, runs, tells, tested

ONE = {"request_id": NEW, "job_id": "{victim}"}
LAUNCH = {"credential": b"x", "programs": [{"argv": ["id"]}]}
NOTHING = r"refused|closed"
BATCH, EXTERN = 4294967291, 4294967292

EVENTS = (
    tested("filters that take memory",
           "tests/ctld/open_calls/test_event_feed.py::test_what_filters_take_is_bounded"),
    tested("words of listeners of slurmrestd",
           "tests/web/test_events.py::test_words_of_listeners_are_bounded"),
    tested("who does not read", "tests/ctld/open_calls/test_event_feed.py"
           "::test_a_slow_listener_is_dropped_with_a_word"),
    does("another's events", "(timeout 4 squeue --follow & timeout 4 scontrol watch jobs) & "
         "sleep 1; srun -t1 true; wait", "games", "{other}|JobId={victim} |Traceback"),
    does("another's events by its id", "timeout 3 squeue --follow -j {victim}; echo over", "over",
         r"^ *{victim}|JobId={victim}"),
    does("eighty listeners", "for n in $(seq 80); do timeout 5 squeue --follow >/dev/null 2>&1 & "
         "done; wait; echo over", "over"),
    tells("events before all time", "FollowEvents", {"after": -(2**63)}),
    tells("events after all time", "FollowEvents", {"after": 2**62}, r"'is_whole': False"),
    tells("all rights in its flags", "FollowEvents", {"flags": 2**63 - 1}, ANY),
    tells("jobs without end", "FollowEvents", {"filter": {"jobs": Many(["1"], 30_000)}}),
    tells("ranges of tasks without end", "FollowEvents",
          {"filter": {"jobs": Many(["1_[0-90000:2]"], 200)}}),
    tells("nodes without end", "FollowEvents", {"with_nodes": True, "nodes": "n[1-99999999]"}),
    tells("brackets of nodes", "FollowEvents",
          {"with_nodes": True, "nodes": Many("n[1-2]", 9_000)}),
    tells("no number as the first", "FollowEvents", {"after": "x"}),
)  # fmt: skip

STEPS = (
    tested("a request again",
           "tests/d/test_step_manager.py::test_a_lost_answer_runs_no_step_twice"),
    tested("no other user", "tests/d/test_step_manager.py::test_no_other_user_is_served"),
    tested("credentials that reach further", "tests/steps/test_managed_job.py"),
    tested("queues without end", "tests/d/test_step_manager.py"
           "::test_queued_steps_of_a_user_are_bounded_over_all_jobs"),
    does("a queued step of another's job", "srun --async --jobid={victim} id"),
    does("waiting for another's steps", "SLURM_STEPMGR=n1 SLURM_JOB_ID={victim} swait"),
    does("another node as the manager", "SLURM_STEPMGR=n2 SLURM_STEPMGR_ADDRESS=127.0.0.1:1 "
         "SLURM_JOB_ID={victim} srun --async id"),
    tells("a step of another's, queued", "QueueStep",
          {**ONE, "step": ONE, "launch": LAUNCH}, NOTHING, to="slurmd"),
    tells("a step that ends by a user's word", "CompleteStep",
          {**ONE, "step_id": 0, "nodes": ["n1"], "exit_code": 0}, NOTHING, to="slurmd"),
    tells("an end to wait for", "WaitSteps", {"job_id": "{victim}"}, NOTHING, to="slurmd"),
    tells("news of steps", "NodeReports", [[[7, "{victim}", 0, b"x"]], 0], NOTHING),
    does("files of root's", "sbatch -W --stepmgr -t1 -o mgr.out --wrap 'srun --async -n1 -o "
         "/etc/psng-async id; swait; test -e /etc/psng-async && echo ESCAPED; echo over' "
         ">/dev/null; cat mgr.out", "over", "ESCAPED|Traceback"),
    does("two hundred queued steps", "sbatch -W --stepmgr -t1 -o mq.out --wrap 'for n in $(seq "
         "200); do srun --async -n1 -o /dev/null true; done >/dev/null 2>&1; scancel "
         "$SLURM_JOB_ID.150; swait; echo over' >/dev/null; cat mq.out", "over"),
)  # fmt: skip

LOGINS = (
    tested("who is let in", "tests/d/test_logins.py"),
    tested("processes that hide", "tests/d/stepd/test_extern.py"),
    *(tells(f"an adoption of {what}", "AdoptLogin",
            {"uid": uid, "pid": pid, "start_ticks": 1}, NOTHING, to="slurmd")
      for what, uid, pid in (("root's process", 0, 1), ("a process of another's", 65534, 1),
                             ("one's own process", 5, 2), ("no process", 5, 4194304))),
    does("the program itself", "PAM_USER=games PAM_TYPE=account pam_pyslurm_adopt "
         "action_generic_failure=deny; test $? = 0 && echo ESCAPED; echo over", "over", "ESCAPED"),
    does("as another", "PAM_USER={other} PAM_TYPE=open_session pam_pyslurm_adopt "
         "action_generic_failure=deny; test $? = 0 && echo ESCAPED; echo over", "over", "ESCAPED"),
    does("a configuration of its own", "PAM_USER=games PAM_TYPE=account SLURM_CONF=/dev/null "
         "pam_pyslurm_adopt conf=/dev/null action_generic_failure=deny; test $? = 0 && echo "
         "ESCAPED; echo over", "over", "ESCAPED"),
    does("another's extern step", "scancel {victim}.extern"),
    does("its streams", "sattach {victim}.extern"),
    does("its usage", "sstat -n -j {victim}.extern", ANY, r"{victim}\.extern +\S+ +\d"),
    tells("its streams by the wire", "AttachStep", {"job_id": "{victim}", "step_id": EXTERN,
          "route": {"host": "127.0.0.1", "port": 2000, "key": b"k" * 64}}, to="slurmd"),
    tells("its end by the wire", "SignalStep", {"job_id": "{victim}", "step_id": EXTERN,
          "signal": 9}, to="slurmd"),
)  # fmt: skip


ASK = (
    "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', {rest}, timeout=20); "
    "h = dict(word.split(': ', 1) for word in sys.argv[4:]); "
    "c.request(sys.argv[1], sys.argv[2], sys.argv[3] or None, h); r = c.getresponse(); "
    "print('status', r.status, r.getheader('location'), r.read(2000))"
)


def written(name: str, output: str, seen: str = r"status \d+") -> Attack:
    """Return a job whose output file is another's, and what its owner is shown of it."""
    line = (
        f"j=$(sbatch --parsable -t1 -o '{output}' --wrap 'sleep 3'); sleep 1.5; "
        "t=$(scontrol token | cut -d= -f2); for what in output errors; do "
        f'python3 -c "{ASK}" GET /jobs/$j/$what "" "X-SLURM-USER-TOKEN: $t"; done; scancel $j'
    )
    return does(name, line, seen, "root:|ESCAPED|Traceback|internal")


OUTPUTS = (
    tested("files that are none of its own", "tests/d/test_output_reader.py"),
    tells("another's output", "ReadOutput", {"job": "{victim}"}),
    tells("another's errors", "ReadOutput", {"job": "{victim}", "stream": "err"}),
    tells("a stream that is none", "ReadOutput", {"job": "1", "stream": "../x"}),
    tells("behind the end of all files", "ReadOutput", {"job": "1", "offset": 2**63 - 1}),
    tells("before the beginning", "ReadOutput", {"job": "1", "offset": -2}),
    tells("more than there is memory", "ReadOutput", {"job": "1", "length": 2**40}),
    tells("an array of jobs", "ReadOutput", {"job": "1_[0-99999999]"}),
    tells("all jobs", "ReadOutput", {"job": ""}),
    tells("an order of a controller's", "ReadJobFile", [1, b"x", "/etc/shadow", 0, 1], NOTHING,
          to="slurmd"),
    written("the shadow", "/etc/shadow"),
    written("a device", "/dev/zero"),
    written("a file of the node's", "{spool}/n1/epoch"),
)  # fmt: skip


def token(head: object, claims: object, signature: str = "") -> str:
    """Return a token that nobody has signed, or with the given end."""
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in (head, claims))
    return ".".join([*(part.rstrip(b"=").decode() for part in parts), signature])


ROOT = {"sun": "root", "exp": 4_000_000_000, "iat": 1}


def asks(
    name: str, path: str, *headers: str, seen: str = r"status (4\d\d|303 /login)",
    method: str = "GET", body: str = "", unseen: str = "root:x|<script>x",
) -> Attack:  # fmt: skip
    """Return a request to slurmrestd."""
    words = ("python3", "-c", ASK, method, path, body, *headers)
    return Attack(name, seen, f"{unseen}|Traceback|internal error", words=words)


def shows(name: str, text: str, path: str = "/slurm/v0.0.46/jobs") -> Attack:
    """Return a token that is none, shown to slurmrestd."""
    return asks(name, path, f"X-SLURM-USER-TOKEN: {text}")


FORM = "Content-Type: application/x-www-form-urlencoded"
REST = (
    tested("keys that are confused", "tests/wire/test_auth_jwt.py"),
    tested("bodies and lengths", "tests/web/test_connections.py"),
    tested("any request", "tests/web/test_any_request.py"),
    shows("no algorithm", token({"alg": "none"}, ROOT)),
    shows("no algorithm in other letters", token({"alg": "nOnE"}, ROOT)),
    shows("a list of algorithms", token({"alg": ["HS256"]}, ROOT, "AAAA")),
    shows("RS256 without a key", token({"alg": "RS256"}, ROOT, "A" * 342)),
    shows("a key of its own", token({"alg": "HS256", "jwk": {"kty": "oct", "k": "AA"}}, ROOT, "A")),
    shows("a key of a path", token({"alg": "HS256", "kid": "../../dev/null"}, ROOT, "A" * 43)),
    shows("a key of an address", token({"alg": "RS256", "jku": "http://127.0.0.1:1/"}, ROOT, "A")),
    shows("claims that need no body", token({"alg": "HS256", "b64": False, "crit": ["b64"]}, ROOT)),
    shows("numbers without end", token({"alg": "HS256"}, {"sun": "root", "exp": 10**400}, "A")),
    shows("accounting", token({"alg": "none"}, ROOT), "/slurmdb/v0.0.46/users"),
    shows("events", token({"alg": "none"}, ROOT), "/events"),
    asks("a link for root", "/login/link",
         f"X-SLURM-USER-TOKEN: {token({'alg': 'none'}, ROOT)}", method="POST"),
    does("a token that was changed", "t=$(scontrol token | cut -d= -f2); h=${t%%.*}; s=${t##*.}; "
         "p=$(printf '{\"sun\":\"root\",\"exp\":4000000000}' | base64 -w0 | tr -d =); "
         "SLURM_JWT=$h.$p.$s scancel {victim}"),
    does("a token for another's job", "t=$(scontrol token | cut -d= -f2); SLURM_JWT=$t scancel "
         "{victim}"),
    does("a token of root by name", "scontrol token username=root"),
    asks("a proxy's word", "/slurm/v0.0.46/jobs", "X-Remote-User: root", "Remote-User: root",
         "X-Forwarded-User: root", "X-Forwarded-For: 127.0.0.1"),
    asks("a host that is none", "/jobs", "Host: evil.example"),
    asks("a form of another site", "/login", FORM, "Sec-Fetch-Site: cross-site", method="POST",
         body="token=a.b.c"),
    asks("a change without a seal", "/jobs/{victim}/cancel", FORM, method="POST", body="seal=x"),
    asks("files of the host", "/static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd"),
    asks("a script in a path", "/jobs/%3Cscript%3Ex", seen=ANY),
    asks("a way to elsewhere", "/login?next=//evil.example", seen="status 200"),
    asks("a method that is none", "/slurm/v0.0.46/jobs", method="TRACE"),
    asks("two lengths", "/slurm/v0.0.46/job/submit", "Content-Length: 3",
         "Transfer-Encoding: chunked", method="POST", body="0\r\n\r\n"),
)  # fmt: skip

HOME = (
    tested("the screen of another's", "tests/d/stepd/test_x11_display.py"),
    tested("the cookie of another's", "tests/cli/step/test_x11.py"),
    tested("all displays of a node",
           "tests/d/test_step_runner.py::test_one_user_has_a_tenth_of_the_displays"),
    tested("a daemon's port",
           "tests/wire/test_client.py::test_a_user_at_a_daemons_port_is_told_nothing"),
    tested("what a killed server leaves", "tests/d/stepd/test_pmix_relay.py"),
    does("another's crontab", "scrontab -u {other} -l; scrontab -u root -l; echo '* * * * * id' | "
         "scrontab -u {other} -", "denied|Only root", r"^\* "),
    does("a crontab of what is no text", "head -c 100000 /dev/urandom | scrontab -"),
    does("a crontab without end", "for n in $(seq 300); do echo '* * * * * true'; done | "
         "scrontab -; scrontab -r", ANY),
    does("a crontab as root", "printf '#SCRON --uid=0\\n* * * * * id\\n' | scrontab -"),
    does("a thousand jobs as root", "seq 3 | pyslurm-ng submit --from - --commands --uid=0 -o "
         "/dev/null"),
    does("lines that are no text", "head -c 100000 /dev/urandom | pyslurm-ng submit --from - "
         "--commands -o /dev/null", ANY),
    does("a line without end", "head -c 9000000 /dev/zero | tr '\\0' x | pyslurm-ng submit "
         "--from - --commands -o /dev/null"),
    does("nodes of its own", "scontrol create nodename=x1 state=cloud"),
    does("nodes to sleep", "scontrol update nodename=n1 state=power_down"),
    does("a federation", "sacctmgr -i add federation f clusters=cluster"),
    does("another cluster", "sacctmgr -i add cluster evil"),
    runs("the meter's file", "for f in {spool}/*/measured; do cat $f 2>/dev/null && echo ESCAPED; "
         "(echo x > $f) 2>/dev/null && echo ESCAPED; done; true"),
)  # fmt: skip

CLASSES: dict[str, tuple[Attack, ...]] = {
    "events": EVENTS, "steps": STEPS, "logins": LOGINS, "outputs": OUTPUTS, "rest": REST,
    "home": HOME,
}  # fmt: skip
