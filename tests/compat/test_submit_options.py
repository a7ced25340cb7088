"""What each option of sbatch, salloc and srun asks of the controller.

What a request then brings is proven by the tests of rules and scheduling.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.base.numbers import (
    REQ_CONSOLIDATE_SEGMENTS,
    REQ_CONTIGUOUS,
    REQ_EXPEDITE,
    REQ_GET_USER_ENV,
    REQ_GRES_ENFORCE_BIND,
    REQ_HOLD,
    REQ_KILL_INVALID_DEP,
    REQ_NO_KILL,
    REQ_NO_REQUEUE,
    REQ_OPEN_APPEND,
    REQ_OVERCOMMIT,
    REQ_OVERSUBSCRIBE,
    REQ_REQUEUE,
    REQ_SPREAD,
    REQ_SPREAD_SEGMENTS,
    REQ_STEPMGR,
    REQ_USE_MIN_NODES,
)
from pyslurm_ng.cli import salloc, srun
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.step import launch
from pyslurm_ng.cli.submit import options as op, submission
from pyslurm_ng.model.job import JobRequest
from tests.compat.parsed_options import parsed

COMMANDS = ("sbatch", "salloc", "srun")
YEAR_2030_US = 1_893_456_000_000_000
FIELDS: dict[str, tuple[list[str], dict[str, object]]] = {
    "account": (["--account=physics"], {"account": "physics"}),
    "acctg-freq": (["--acctg-freq=task=5"], {"acctg_freq": "task=5"}),
    "array": (["--array=0-3%2"], {"array": "0-3%2"}),
    "batch": (["--batch=big"], {"batch_features": "big"}),
    "begin": (["--begin=2030-01-01T00:00:00"], {"begin_us": YEAR_2030_US}),
    "comment": (["--comment=hello"], {"comment": "hello"}),
    "constraint": (["--constraint=ib&gpu"], {"constraint": "ib&gpu"}),
    "core-spec": (["--core-spec=2"], {"core_spec": 2}),
    "cores-per-socket": (["--cores-per-socket=8"], {"cores_per_socket": 8}),
    "cpus-per-gpu": (["--gpus=1", "--cpus-per-gpu=2"], {"cpus_per_gpu": 2}),
    "cpus-per-task": (["--cpus-per-task=4"], {"cpus_per_task": 4}),
    "deadline": (["--deadline=2030-01-01T00:00:00"], {"deadline_us": YEAR_2030_US}),
    "dependency": (["--dependency=afterok:7"], {"dependency": "afterok:7"}),
    "distribution": (["--distribution=cyclic:block"], {"distribution": "cyclic:block"}),
    "error": (["--error=err.%j"], {"std_err": "err.%j"}),
    "exclude": (["--exclude=n[1-2]"], {"exclude": "n[1-2]"}),
    "extra": (["--extra=a=1"], {"extra": "a=1"}),
    "extra-node-info": (
        ["--extra-node-info=2:4:1"],
        {"sockets_per_node": 2, "cores_per_socket": 4, "threads_per_core": 1},
    ),
    "gpus": (["--gpus=a100:2"], {"gpus": "a100:2"}),
    "gpus-per-node": (["--gpus-per-node=2"], {"gpus_per_node": "2"}),
    "gpus-per-socket": (
        ["--gpus-per-socket=1", "--sockets-per-node=2"],
        {"gpus_per_socket": "1", "sockets_per_node": 2},
    ),
    "gpus-per-task": (["-n2", "--gpus-per-task=1"], {"gpus_per_task": "1"}),
    "gres": (["--gres=gpu:1"], {"gres": "gpu:1"}),
    "hint": (["--hint=nomultithread"], {"hint": "nomultithread", "threads_per_core": 1}),
    "input": (["--input=in.txt"], {"std_in": "in.txt"}),
    "job-name": (["--job-name=train"], {"name": "train"}),
    "licenses": (["--licenses=matlab:2"], {"licenses": "matlab:2"}),
    "mail-type": (["--mail-type=END,FAIL"], {"mail_type": 6}),
    "mail-user": (["--mail-user=alice"], {"mail_user": "alice"}),
    "mem": (["--mem=4G"], {"mem_per_node_mib": 4096}),
    "mem-per-cpu": (["--mem-per-cpu=500"], {"mem_per_cpu_mib": 500}),
    "mem-per-gpu": (["--gpus=1", "--mem-per-gpu=8G"], {"mem_per_gpu_mib": 8192}),
    "mincpus": (["--mincpus=4"], {"mincpus": 4}),
    "nice": (["--nice=50"], {"nice": 50}),
    "nodelist": (["--nodelist=n[1-3]"], {"node_list": "n[1-3]"}),
    "nodes": (["--nodes=2-4"], {"nodes_min": 2, "nodes_max": 4}),
    "ntasks": (["--ntasks=8"], {"ntasks": 8}),
    "ntasks-per-core": (["--ntasks-per-core=1"], {"ntasks_per_core": 1}),
    "ntasks-per-gpu": (["-n8", "--ntasks-per-gpu=4"], {"gpus": "2"}),
    "ntasks-per-node": (["--ntasks-per-node=4"], {"ntasks_per_node": 4}),
    "ntasks-per-socket": (["--ntasks-per-socket=2"], {"ntasks_per_socket": 2}),
    "oom-kill-step": (["--oom-kill-step=1"], {"oom_kill_step": 1}),
    "output": (["--output=out.%j"], {"std_out": "out.%j"}),
    "partition": (["--partition=gpu,main"], {"partition": "gpu,main"}),
    "prefer": (["--prefer=ib"], {"prefer": "ib"}),
    "priority": (["--priority=77"], {"priority": 77}),
    "reservation": (["--reservation=maint"], {"reservation": "maint"}),
    "resv-ports": (["--resv-ports=3"], {"resv_ports": 3}),
    "segment": (["--segment=2"], {"segment": 2}),
    "signal": (["--signal=USR1@60"], {"signal": 10, "signal_before_s": 60}),
    "sockets-per-node": (["--sockets-per-node=2"], {"sockets_per_node": 2}),
    "switches": (["--switches=1@10"], {"switches": 1, "switches_wait_s": 600}),
    "thread-spec": (["--thread-spec=1"], {"thread_spec": 1}),
    "threads-per-core": (["--threads-per-core=1"], {"threads_per_core": 1}),
    "time": (["--time=1:30:00"], {"time_limit_min": 90}),
    "time-min": (["--time=20", "--time-min=10"], {"time_min_min": 10}),
    "tmp": (["--tmp=100"], {"tmp_mib": 100}),
    "tres-bind": (["--tres-bind=gres/gpu:closest"], {"tres_bind": "gres/gpu:closest"}),
    "gpu-bind": (["--gpu-bind=closest"], {"gpu_bind": "closest"}),
    "tres-per-task": (["-n2", "--tres-per-task=cpu=3"], {"cpus_per_task": 3}),
    "wait-all-nodes": (["--wait-all-nodes=1"], {"wait_all_nodes": 1}),
}
FLAGS: dict[str, tuple[list[str], int]] = {
    "consolidate-segments": (["--consolidate-segments"], REQ_CONSOLIDATE_SEGMENTS),
    "contiguous": (["--contiguous"], REQ_CONTIGUOUS),
    "get-user-env": (["--get-user-env"], REQ_GET_USER_ENV),
    "gres-flags": (["--gres-flags=enforce-binding"], REQ_GRES_ENFORCE_BIND),
    "hold": (["--hold"], REQ_HOLD),
    "kill-on-invalid-dep": (["--kill-on-invalid-dep=yes"], REQ_KILL_INVALID_DEP),
    "no-kill": (["--no-kill"], REQ_NO_KILL),
    "no-requeue": (["--no-requeue"], REQ_NO_REQUEUE),
    "open-mode": (["--open-mode=append"], REQ_OPEN_APPEND),
    "overcommit": (["--overcommit"], REQ_OVERCOMMIT),
    "oversubscribe": (["--oversubscribe"], REQ_OVERSUBSCRIBE),
    "spread-job": (["--spread-job"], REQ_SPREAD),
    "spread-segments": (["--spread-segments"], REQ_SPREAD_SEGMENTS),
    "use-min-nodes": (["--use-min-nodes"], REQ_USE_MIN_NODES),
}


def has(command: str, option: str) -> bool:
    return option in op.Options(command).by_name


@pytest.mark.parametrize(
    ("command", "option"),
    [(command, name) for name in FIELDS for command in COMMANDS if has(command, name)],
)
def test_an_option_becomes_a_field(command: str, option: str) -> None:
    """With its value, and as the letter too where there is one."""
    words, expected = FIELDS[option]
    request = parsed(command, words).request
    assert {name: request.get(name) for name in expected} == expected
    letter = op.Options(command).by_name[option][1]
    if letter:
        long = next(word for word in words if word.startswith(f"--{option}="))
        short = [f"-{letter}{long.partition('=')[2]}" if word == long else word for word in words]
        assert parsed(command, short).request == request


@pytest.mark.parametrize(
    ("command", "option"),
    [(command, name) for name in FLAGS for command in COMMANDS if has(command, name)],
)
def test_an_option_becomes_a_flag(command: str, option: str) -> None:
    words, flag = FLAGS[option]
    assert parsed(command, words).request["flags"] & flag
    assert not parsed(command, []).request.get("flags", 0) & flag


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_of_nodes_gives_their_names(command: str, tmp_path: Path) -> None:
    """--nodefile is as -w with the names in the file."""
    path = tmp_path / "nodes"
    path.write_text("n1\nn2\n")
    request = parsed(command, [f"--nodefile={path}"]).request
    assert request == parsed(command, ["-w", "n1,n2"]).request
    assert request["node_list"] == "n[1-2]"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_is_where_the_job_runs(command: str) -> None:
    """--chdir, or -D."""
    assert parsed(command, ["--chdir=/tmp"]).request["work_dir"] == "/tmp"
    assert parsed(command, ["-D", "/tmp"]).request["work_dir"] == "/tmp"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--runtime=oci"], "--runtime is not implemented yet"),
        (["--resources=a"], "--resources is not implemented yet"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_refused_is_named(command: str, words: list[str], text: str) -> None:
    """With exit code 1; nothing is left out in silence."""
    with pytest.raises(OptionError) as refused:
        parsed(command, words)
    assert (str(refused.value), refused.value.code) == (text, 1)


def test_requeue_may_be_expedited() -> None:
    """The last of --requeue, --requeue=expedite and --no-requeue counts."""
    both = REQ_REQUEUE | REQ_EXPEDITE
    assert parsed("sbatch", ["--no-requeue", "--requeue=expedite"]).request["flags"] == both
    plain = parsed("sbatch", ["--requeue=expedite", "--requeue"])
    assert plain.request["flags"] == REQ_REQUEUE
    never = parsed("sbatch", ["--requeue=expedite", "--no-requeue"])
    assert never.request["flags"] == REQ_NO_REQUEUE


@pytest.mark.parametrize("name", ["AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE",
                                  "NPROC", "RSS", "STACK"])  # fmt: skip
def test_limits_go_along_as_slurm_conf_says(name: str) -> None:
    """PropagateResourceLimits names them, PropagateResourceLimitsExcept all others."""
    limits = submission.limits("", {"PropagateResourceLimits": name})
    assert [limit for limit, _, _ in limits] == [name]
    others = submission.limits("", {"PropagateResourceLimitsExcept": name})
    assert len(others) == 9 and name not in [limit for limit, _, _ in others]


def test_all_or_no_limits_go_along() -> None:
    """PropagateResourceLimits=ALL and =NONE; PropagateResourceLimitsExcept=ALL and =NONE."""
    count = {
        (key, word): len(submission.limits("", {key: word}))
        for key in ("PropagateResourceLimits", "PropagateResourceLimitsExcept")
        for word in ("ALL", "NONE")
    }
    assert list(count.values()) == [10, 0, 0, 10]


def test_propagate_goes_before_slurm_conf() -> None:
    """--propagate=STACK."""
    propagate = parsed("sbatch", ["--propagate=STACK"]).settings["propagate"]
    limits = submission.limits(propagate, {"PropagateResourceLimits": "CORE"})
    assert [limit for limit, _, _ in limits] == ["STACK"]


@pytest.mark.parametrize("value", ["L", "s", "10", "10L", "-5", "", "99999999999S"])
def test_a_login_environment_may_have_a_time_and_a_mode(value: str) -> None:
    """As Slurm 22.05 takes them; both are dropped."""
    request = parsed("sbatch", [f"--get-user-env={value}"]).request
    assert request == parsed("sbatch", ["--get-user-env"]).request


@pytest.mark.parametrize("value", ["foo", "10X", "10 L", "L10", "--5"])
def test_a_login_environment_of_another_form_is_refused(value: str) -> None:
    """With Slurm 22.05's line and code."""
    with pytest.raises(OptionError) as refused:
        parsed("sbatch", [f"--get-user-env={value}"])
    assert str(refused.value) == "Invalid --get-user-env specification"
    assert refused.value.code == 255


@pytest.mark.parametrize("command", COMMANDS)
def test_a_burst_buffer_is_named_as_without_effect(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slurm takes it in silence where BurstBufferType is not set. The job is submitted."""
    (tmp_path / "bb").write_text("#DW jobdw capacity=1GB\n")
    for words in (["--bb=capacity=10G"], [f"--bbf={tmp_path}/bb"], ["--bb=x", "--quiet"], []):
        submission.check_configured(parsed(command, words), {})
    assert capsys.readouterr().err == "".join(
        f"{command}: {option} has no effect: there are no burst buffers\n"
        for option in ("--bb", "--bbf")
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_features_of_clusters_are_named_as_without_effect(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are sent, and the job shows them, but it has no siblings in other clusters."""
    options = parsed(command, ["--cluster-constraint=a,b"])
    submission.check_configured(options, {})
    assert options.request["cluster_features"] == "a,b"
    assert capsys.readouterr().err == (
        f"{command}: --cluster-constraint has no effect: a job has no siblings in other clusters\n"
    )


def test_nodes_are_told_how_to_bind_tasks() -> None:
    """srun --cpu-bind and --mem-bind. For what a node does with the words, see tests/d/host."""
    granted = {"credential": b"", "distribution": "Block"}
    conf = {"PropagateResourceLimits": "NONE"}

    def told(*words: str) -> tuple[str, str]:
        fields = launch.launch_fields(parsed("srun", list(words)), conf, granted, [], {})
        return fields["cpu_bind"], fields["mem_bind"]

    assert told() == ("quiet", "")
    assert told("--cpu-bind=v,map_cpu:1,0") == ("verbose,map_cpu:1,0", "")
    assert told("--cpu-bind=cores", "--mem-bind=local") == ("quiet,cores", "quiet,local")


@pytest.mark.parametrize("name", ["threads", "treewidth"])
def test_hints_on_contacting_nodes_are_counts(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """srun asks all nodes at once, whatever they say."""
    assert srun.main([f"--{name}=4"]) == 1
    assert capsys.readouterr().err == "srun: fatal: No command given to execute.\n"
    assert srun.main([f"--{name}=x", "true"]) == 1
    assert f'Invalid numeric value "x" for --{name}.' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("std_out", "--output"),
        ("name", "--job-name"),
        ("wckey", "--wckey"),
        ("nodes_min", "--nodes"),
        ("node_list", "--nodelist"),
        ("cpus_per_task", "--cpus-per-task"),
        ("mem_per_node_mib", "--mem"),
        ("environment", "environment"),
    ],
)
def test_a_bound_is_reported_with_the_option(field: str, option: str) -> None:
    """Users do not know the fields of requests. Other lines stay as they are."""
    bound = "at most 128 characters are allowed"
    assert submission.by_option(f"{field}: {bound}") == f"{option}: {bound}"
    for line in ("Invalid partition name specified", f"{field}: no such type", bound):
        assert submission.by_option(line) == line


@pytest.mark.parametrize("name", sorted(JobRequest.__struct_fields__))
def test_each_field_has_its_option_or_none(name: str) -> None:
    """A field named in the message is that of an option, or it is shown as it is."""
    option = submission.by_option(f"{name}: at most 9 characters are allowed").partition(": ")[0]
    known = op.Options("sbatch").by_name | op.Options("srun").by_name
    assert option == name or option.removeprefix("--") in known


def test_the_bell_rings_after_a_long_wait() -> None:
    """By default after ten seconds, with --bell always, with --no-bell never."""
    waits = (0.0, 9.0, 11.0)
    assert [salloc.rings({}, wait) for wait in waits] == [False, False, True]
    assert all(salloc.rings({"bell": ""}, wait) for wait in waits)
    assert not any(salloc.rings({"no-bell": ""}, wait) for wait in waits)
    assert not salloc.rings({"bell": "", "no-bell": ""}, 11.0)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_job_may_have_a_step_manager(command: str) -> None:
    """--stepmgr is a wish of the job, which scripts of the site and slurmctld see."""
    assert parsed(command, ["--stepmgr"]).request["flags"] & REQ_STEPMGR
    assert not parsed(command, []).request.get("flags", 0) & REQ_STEPMGR
