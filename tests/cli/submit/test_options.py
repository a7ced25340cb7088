"""The option table, getopt's rules and the values of options."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.numbers import (
    REQ_EXCLUSIVE,
    REQ_HOLD,
    REQ_KILL_INVALID_DEP,
    REQ_MEM_SET,
    REQ_NO_KILL,
    REQ_NO_REQUEUE,
    REQ_NO_SPECIAL_CORES,
    REQ_NODES_SET,
    REQ_NTASKS_SET,
    REQ_OPEN_APPEND,
    REQ_OVERCOMMIT,
    REQ_OVERSUBSCRIBE,
    REQ_SIGNAL_BATCH,
)
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import options as op, submission
from pyslurm_ng.cli.submit.directives import split_directive
from pyslurm_ng.cli.submit.option_help import HELP
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE, HelpRequested
from pyslurm_ng.cli.submit.option_table import OPTIONS
from pyslurm_ng.model.job import JobRequest

COMMANDS = ("sbatch", "salloc", "srun")
FIELDS = set(JobRequest.__struct_fields__)


def parsed(*words: str, command: str = "sbatch") -> op.Options:
    """Read words as the command line of a command."""
    options = op.Options(command)
    pairs, _ = options.split_words(list(words))
    options.apply_all(pairs, COMMAND_LINE)
    options.finish()
    return options


@pytest.mark.parametrize(
    ("words", "batch", "step"),
    [
        ("-B 2:2 -N1", 4, None),
        ("-B 2:2:1", 4, 4),
        ("-B 2:4:1 -N2", 16, 16),
        ("-B 2:4:1 -N1-2", None, None),
        ("-B 2:*:1", 2, None),
        ("-B 2:4:1 -n3", 3, 3),
        ("-B 2:4:1 --ntasks-per-node=2", None, 8),
        ("--sockets-per-node=2 --cores-per-socket=4 --threads-per-core=1 -N1", 8, None),
        ("-N1 --sockets-per-node=2 -c4", 2, None),
        ("-N2 --sockets-per-node=2 --gpus-per-socket=1", 4, None),
        ("-N1 --cores-per-socket=4", 4, None),
        ("--sockets-per-node=2 -c4", None, None),
        ("-N1 --sockets-per-node=2 --ntasks-per-node=3", None, None),
        ("-N1 --hint=nomultithread", None, None),
    ],
)
def test_hardware_that_is_named_counts_tasks(
    words: str, batch: int | None, step: int | None
) -> None:
    """As seen with Slurm 22.05: srun counts tasks only by all three numbers of -B."""
    for command, ntasks in (("sbatch", batch), ("salloc", batch), ("srun", step)):
        assert parsed(*words.split(), command=command).request.get("ntasks") == ntasks


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        ("-n4", "2"),
        ("-n1", "1"),
        ("-N2", "2"),
        ("-N2 -n8", "4"),
        ("--gpus=3", "3"),
        ("--gres=gpu:2", None),
    ],
)
def test_gpus_of_tasks_are_counted(words: str, gpus: str | None) -> None:
    """--ntasks-per-gpu makes them of the tasks; nodes alone have one each, as in Slurm 22.05."""
    assert parsed("--ntasks-per-gpu=2", *words.split()).request.get("gpus") == gpus


@pytest.mark.parametrize(
    "words", ["--gres=gpu:a:1,gpu:1", "--gres=gpu:a:1 --gpus=1", "--gpus=a:1,2",
              "--gpus-per-node=a:2 --gpus-per-task=1 -n2"],
)  # fmt: skip
def test_gpus_with_and_without_a_type_are_refused(words: str) -> None:
    with pytest.raises(OptionError) as caught:
        parsed(*words.split())
    text = "Invalid GRES specification (with and without type identification)"
    assert (caught.value.text, caught.value.code) == (text, 1)


@pytest.mark.parametrize(
    ("words", "distribution"),
    [
        ("pack", "*,pack"),
        ("NoPack", "*,NoPack"),
        ("block:", "block"),
        ("block,", "block"),
        ("*:*", "*:*"),
    ],
)
def test_distributions_of_few_words(words: str, distribution: str) -> None:
    """Pack and NoPack may stand alone, as with Slurm 22.05."""
    assert parsed("-m", words).request["distribution"] == distribution


def test_segments_may_lie_on_any_of_more_nodes_named() -> None:
    """-w with more names than -N is no mistake for a job of segments."""
    for command in ("sbatch", "salloc", "srun"):
        request = parsed("-w", "n[1-4]", "-N2", "--segment=2", command=command).request
        assert (request["node_list"], request["nodes_max"]) == ("n[1-4]", 2)


def test_no_special_cores() -> None:
    """--core-spec=0 is not the same as no --core-spec."""
    assert parsed("--core-spec=0").request["flags"] & REQ_NO_SPECIAL_CORES
    assert not parsed().request.get("flags", 0) & REQ_NO_SPECIAL_CORES


def test_gpus_per_task_may_count_tasks_by_node() -> None:
    """`--gpus-per-task` with --ntasks-per-node alone: the nodes are one by default."""
    request = parsed("--gpus-per-task=1", "--ntasks-per-node=2").request
    assert (request["gpus_per_task"], request["ntasks_per_node"]) == ("1", 2)


def test_fewer_tasks_than_named_nodes_take_as_many_nodes() -> None:
    """`-n2 -w n[1-3]`: two of the three, with a warning; -N says otherwise."""
    options = op.Options("sbatch")
    pairs, _ = options.split_words(["-n2", "-w", "n[1-3]"])
    options.apply_all(pairs, COMMAND_LINE)
    assert options.finish() == ["warning: can't run 2 processes on 3 nodes, setting nnodes to 2"]
    assert (options.request["nodes_min"], options.request["nodes_max"]) == (2, 2)
    assert options.request["node_list"] == "n[1-2]"
    options = parsed("-n3", "-w", "n[1-3]")
    assert options.request["nodes_min"] == 3 and "nodes_max" not in options.request


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("-w n3,n1 -x n9,n10,n2", ("n[1,3]", "n[2,9-10]")),
        ("-w n1,n1", ("n1", None)),
        ("-w n[3,1] -x n[4,2]", ("n[1,3]", "n[2,4]")),
        ("-w n2,n1,n2 -m arbitrary -n3", ("n2,n1,n2", None)),
    ],
)
def test_named_nodes_are_sorted_unless_they_are_places_of_tasks(
    words: str, shown: tuple[str, str | None]
) -> None:
    """As Slurm's ReqNodeList and ExcNodeList show them."""
    request = parsed(*words.split()).request
    assert (request["node_list"], request.get("exclude")) == shown


@pytest.mark.parametrize(
    ("command", "words", "names", "nodes", "tasks"),
    [
        ("sbatch", "-w n2,n1", "n2,n1", 2, 2),
        ("sbatch", "-w n2,n1,n2", "n2,n1,n2", 2, 2),
        ("srun", "-w n2,n1,n2", "n2,n1,n2", 2, 3),
        ("srun", "-w n1,n2 -n4", "n1,n2", 2, 4),
        ("salloc", "-w n[1-3] -n2", "n1,n2", 2, 2),
        ("srun", "-w n1,n1,n2 -n1", "n1", 1, 1),
    ],
)
def test_an_arbitrary_distribution_counts_names(
    command: str, words: str, names: str, nodes: int, tasks: int
) -> None:
    """srun has a task for each name; the others have one for each node that is named."""
    options = op.Options(command)
    pairs, _ = options.split_words(["-m", "arbitrary", *words.split()])
    options.apply_all(pairs, COMMAND_LINE)
    warnings = options.finish()
    request = options.request
    assert (request["node_list"], request["nodes_min"], request["ntasks"]) == (names, nodes, tasks)
    assert request["flags"] & REQ_NTASKS_SET
    assert bool(warnings) == (request.get("nodes_max", 0) == nodes)


def test_an_arbitrary_distribution_keeps_to_the_number_of_nodes() -> None:
    """More names than nodes are refused, whether tasks follow the names or not."""
    with pytest.raises(OptionError, match=r"invalid number of nodes \(-N 3-2\)"):
        parsed("-m", "arbitrary", "-w", "n[1-3]", "-N2")


def test_an_arbitrary_distribution_needs_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In -w or a file; a step of a job has the job's."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.delenv("SLURM_HOSTFILE", raising=False)
    for command in COMMANDS:
        with pytest.raises(OptionError, match="you need to specify a nodelist or hostfile"):
            parsed("-m", "arbitrary", "-n2", command=command)
    assert parsed("-m", "arbitrary", "-w", "n[1-2]").request["distribution"] == "arbitrary"
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert parsed("-m", "arbitrary", command="srun").request["distribution"] == "arbitrary"


@pytest.mark.parametrize("words", [("-w",), ("--nodefile",)])
def test_a_file_of_hosts_has_to_be_text(tmp_path: Path, words: tuple[str, ...]) -> None:
    """RELIABILITY 74: a file named by mistake is named in one line."""
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x80n1")
    with pytest.raises(OptionError, match="is not a text file"):
        parsed(*words, str(path))


def test_a_priority_ends_below_the_one_that_means_unset() -> None:
    """As Slurm 22.05 refuses it."""
    assert parsed("--priority=4294967293").request["priority"] == 4294967293
    for value in ("4294967294", "5000000000"):
        with pytest.raises(OptionError, match=r"^Priority must be < 4294967294$"):
            parsed(f"--priority={value}")


def test_a_burst_buffer_is_kept_as_asked_for(tmp_path: Path) -> None:
    """In words or in a file."""
    path = tmp_path / "bb"
    path.write_text("#DW jobdw capacity=1GB\n#DW stage_in\n")
    for command in COMMANDS:
        options = parsed("--bb=capacity=10G", command=command)
        assert options.request["burst_buffer"] == "capacity=10G"
        options = parsed(f"--bbf={path}", command=command)
        assert options.request["burst_buffer"] == "#DW jobdw capacity=1GB\n#DW stage_in"
        with pytest.raises(OptionError, match=r"^Invalid --bbf specification$"):
            parsed(f"--bbf={path}.none", command=command)


# The table --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_documented_option_works_or_is_refused_by_name(command: str) -> None:
    """Nothing that Slurm knows is unknown here, and nothing is silently ignored."""
    options = op.Options(command)
    for name, row in options.by_name.items():
        if op.is_implemented(name):
            continue
        with pytest.raises(OptionError, match=f"--{name} is not implemented yet"):
            options.apply(name, "1" if row[2] else None, COMMAND_LINE)


def test_every_reader_belongs_to_an_option() -> None:
    """A typing error in a table would switch an option off."""
    names = {row[0] for row in OPTIONS}
    known = {*op.TEXTS, *op.NUMBERS, *op.FLAGS, *op.READERS, *op.SETTINGS, *op.RECORDED}
    assert known <= names


def test_tables_name_fields_of_the_request() -> None:
    """What a command sends is refused by the controller if a field's name is wrong."""
    assert set(op.TEXTS.values()) | {field for field, _ in op.NUMBERS.values()} <= FIELDS


def test_each_option_has_one_row_with_help() -> None:
    """Rows are sorted as getopt lists them when a name is ambiguous."""
    names = [row[0] for row in OPTIONS]
    assert names == sorted(names)
    assert set(names) == set(HELP)
    for bit in (1, 2, 4):
        of_command = [row[0] for row in OPTIONS if row[3] & bit]
        assert len(of_command) == len(set(of_command))


# getopt_long ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "pairs", "operands"),
    [
        (["-N2", "a.sh", "-n4"], [("nodes", "2")], ["a.sh", "-n4"]),
        (["--ntasks-per-n=3"], [("ntasks-per-node", "3")], []),
        (["-HQn", "4", "x"], [("hold", None), ("quiet", None), ("ntasks", "4")], ["x"]),
        (["--exclusive", "user"], [("exclusive", None)], ["user"]),
        (["--exclusive=user"], [("exclusive", "user")], []),
        (["-k", "-koff"], [("no-kill", None), ("no-kill", "off")], []),
        (["--wrap", "-x", "--", "-y"], [("wrap", "-x")], ["-y"]),
        (["-"], [], ["-"]),
    ],
)
def test_words_are_read_as_getopt_long_does(
    words: list[str], pairs: list[tuple[str, str | None]], operands: list[str]
) -> None:
    assert op.Options("sbatch").split_words(words) == (pairs, operands)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--hold=1"], "option '--hold' doesn't allow an argument"),
        (["--time"], "option '--time' requires an argument"),
        (["--frob=1"], "unrecognized option '--frob=1'"),
        (["-N"], "option requires an argument -- 'N'"),
        (["-Hz"], "invalid option -- 'z'"),
        (["--array"], "unrecognized option '--array'"),
    ],
)
def test_usage_errors_are_getopts(words: list[str], text: str) -> None:
    command = "salloc" if words == ["--array"] else "sbatch"
    with pytest.raises(OptionError) as caught:
        op.Options(command).split_words(words)
    assert caught.value.text == f'{text}\nTry "{command} --help" for more information'
    assert (caught.value.code, caught.value.level) == (255, "")


# Values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-N", "2-4"], {"nodes_min": 2, "nodes_max": 4}),
        (["-N1k"], {"nodes_min": 1024, "nodes_max": 1024}),
        (["-N", "4,1-2"], {"node_sizes": "4,1-2", "nodes_min": 1, "nodes_max": 4}),
        (["-N2-9:2"], {"node_sizes": "2-9:2", "nodes_min": 2, "nodes_max": 8}),
        (["--mem=0"], {"mem_per_node_mib": 0}),
        (["--mem=4G"], {"mem_per_node_mib": 4096}),
        (["--gpus=a100:2,v100:1"], {"gpus": "a100:2,v100:1"}),
        (["--gpus=a100"], {"gpus": "a100:1"}),
        (["-n2", "--gpus-per-task=2"], {"gpus_per_task": "2"}),
        (["-n8", "--ntasks-per-gpu=4"], {"gpus": "2"}),
        (["--gres=gpu:a100:2,fpga"], {"gres": "gpu:a100:2,fpga"}),
        (["--gres=none"], {"gres": ""}),
        (["-n2", "--tres-per-task=cpu=3,gres/gpu:a100=1"],
         {"cpus_per_task": 3, "gpus_per_task": "a100:1"}),
        (["--tres-per-task=gres:shard:2"], {"tres_per_task": "gres/shard=2"}),
        (["--tres-per-task=gres/shard"], {"tres_per_task": "gres/shard=1"}),
        (["--tres-per-task=gres:shard"], {"tres_per_task": "gres/shard=1"}),
        (["-n2", "--tres-per-task=gres/gpu"], {"gpus_per_task": "1"}),
        (["-n2", "--tres-per-task=gres/gpu:a100,cpu=3"],
         {"cpus_per_task": 3, "gpus_per_task": "a100:1"}),
        (["-n4", "--tres-per-task=license/matlab:2"], {"licenses": "matlab:8"}),
        (["-N2", "--ntasks-per-node=3", "--tres-per-task=license/ANSYS=1,cpu=2"],
         {"licenses": "ANSYS:6", "cpus_per_task": 2}),
        (["-n2", "-L", "a:1", "--tres-per-task=license/b@server"], {"licenses": "a:1,b@server:2"}),
        (["-n2", "-L", "a:1,b", "--tres-per-task=license/a:2"], {"licenses": "a:5,b"}),
        (["--gres-flags=one-task-per-sharing"], {"flags": 1 << 22}),
        (["-t", "1-2"], {"time_limit_min": 1560}),
        (["-t0"], {"time_limit_min": 4294967295}),
        (["--nice"], {"nice": 100}),
        (["--nice=-5"], {"nice": -5}),
        (["--signal=B:USR1@60"], {"signal": 10, "signal_before_s": 60}),
        (["--signal=15"], {"signal": 15, "signal_before_s": 60}),
        (["--mail-type=END,FAIL"], {"mail_type": 6}),
        (["-m", "plane=4"], {"distribution": "plane=4", "plane_size": 4}),
        (["-A", "Physics"], {"account": "physics"}),
        (["--hint=nomultithread"], {"hint": "nomultithread", "threads_per_core": 1}),
        (["--hint=compute_bound"], {"threads_per_core": 1, "cores_per_socket": None}),
        (["--hint=memory_bound"], {"threads_per_core": 1, "cores_per_socket": 1}),
        (["--hint=multithread"], {"threads_per_core": None}),
        # Every thread that -B names has a task, where the count of nodes is told.
        (["-B", "2:4:2"], {"ntasks": 16}),
        (["-B", "2", "-N2"], {"ntasks": 4, "nodes_min": 2}),
        (["-B", "2", "-N1-2"], {"ntasks": None}),
        (["-B", "2", "-n3"], {"ntasks": 3}),
        (["-B", "2", "--ntasks-per-node=2"], {"ntasks": None}),
        (["--sockets-per-node=2"], {"ntasks": None}),
        (["--wait-all-nodes=1"], {"wait_all_nodes": 1}),
        (["--acctg-freq=task=30,energy=60"], {"acctg_freq": "task=30,energy=60"}),
        (["-B", "*:4"], {"sockets_per_node": None, "cores_per_socket": 4}),
        # GPUs of nodes are those that tasks are counted by.
        (["-N3", "-n3", "--gres=gpu:2", "--ntasks-per-gpu=1"], {"gpus": None}),
        # Fewer tasks than nodes come first: one GPU is enough for the one node that is left.
        (["-N2", "-n1", "--gpus=1"], {"nodes_min": 1, "nodes_max": 1}),
        (["-N1-2", "-n1", "-w", "n2,n4"], {"nodes_min": 1, "nodes_max": 1}),
    ],
)  # fmt: skip
def test_values_become_fields(words: list[str], expected: dict[str, object]) -> None:
    request = parsed(*words).request
    assert {name: request.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["-H"], REQ_HOLD),
        (["--exclusive"], REQ_EXCLUSIVE),
        (["--exclusive", "-s"], REQ_OVERSUBSCRIBE),
        (["--requeue", "--no-requeue"], REQ_NO_REQUEUE),
        (["--open-mode=append"], REQ_OPEN_APPEND),
        (["--kill-on-invalid-dep=yes"], REQ_KILL_INVALID_DEP),
        (["--signal=B:15"], REQ_SIGNAL_BATCH),
        (["-n1"], REQ_NTASKS_SET),
        (["--mem-per-cpu=1"], REQ_MEM_SET),
        (["-k"], REQ_NO_KILL),
    ],
)
def test_switches_become_flags(words: list[str], flags: int) -> None:
    assert parsed(*words).request["flags"] == flags


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (["--signal=B"], "Invalid --signal specification", 255),
        (["--open-mode=x"], "Invalid --open-mode specification", 255),
        (["--gpus=1:2:x!"], "Invalid Trackable RESource (TRES) specification", 1),
        (["--ntasks-per-node=x"], 'Invalid numeric value "x" for --ntasks-per-node.', 1),
        (["--cpus-per-gpu=2", "-c2"],
         "--cpus-per-task is mutually exclusive with --cpus-per-gpu", 1),
        (["-w", "n[1-3]", "-N2"], "invalid number of nodes (-N 3-2)", 1),
        (["-w", "n[1-3]", "-N2", "-n4"], "invalid number of nodes (-N 3-2)", 1),
        (["--hint=foo"], 'unrecognized --hint argument "foo", see --hint=help', 1),
        (["-m", "plane"],
         "Invalid plane size or size not specified\nInvalid --distribution specification", 255),
        (["-m", "plane=4", "-N2", "-n4"],
         "Too few processes for the requested {plane,node} distribution", 1),
        (["-m", "plane=2", "-N3"],
         "Too few processes for the requested {plane,node} distribution", 1),
        (["-m", "plane=4", "-w", "n[1-2]", "-n4"],
         "Too few processes for the requested {plane,node} distribution", 1),
        (["-c", "1k"], 'Invalid numeric value "1k" for --cpus-per-task.', 1),
        (["-n", "2k"], 'Invalid numeric value "2k" for --ntasks.', 1),
        (["-N", "1-2-3"], '"2-3" is not a valid node count', 255),
        (["--priority=-1"], "Priority must be >= 0", 255),
        (["--wait-all-nodes=2"], "Invalid --wait-all-nodes specification", 255),
        (["--gres-flags=enforce-binding,disable-binding"], "Invalid --gres-flags specification",
         255),
        (["-F", "/nope"], "slurm_allocate_resources error opening file /nope, No such file or "
         "directory\nInvalid --nodefile node file", 255),
        (["--gpu-bind=frob"], "Invalid --gpu-bind argument: gpu:frob", 255),
        (["--nice=2147483646"], "Invalid --nice value, out of range (+/- 2147483645)", 255),
        (["-B", "1:x"], 'Invalid numeric value "x" for second arg of -B.', 1),
        (["--acctg-freq=disk=3"], "Invalid --acctg-freq specification: disk=3", 255),
        (["--propagate=foo,STACK"],
         "Bad rlimit name: foo\n--propagate=foo,STACK is not valid.", 1),
        (["--core-spec=1", "--thread-spec=1"],
         "-S/--core-spec and --thread-spec options are mutually exclusive", 1),
        (["--gpus-per-socket=1"],
         "--gpus-per-socket option requires --sockets-per-node specification\n"
         "Invalid generic resource (gres) specification", 1),
        (["--ntasks-per-gpu=2", "--gpus-per-socket=1"],
         "--gpus-per-socket is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU",
         1),
        (["--ntasks-per-gpu=2", "--gpus=1", "--ntasks-per-node=2"],
         "--ntasks-per-node is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU",
         1),
        (["--ntasks-per-gpu=1", "--gpus-per-task=1"],
         "--gpus-per-task is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU", 1),
        (["--begin=now+100", "--deadline=now+50"],
         "Incompatible begin and deadline time specification", 1),
        (["-N1,x"], '"1,x" is not a valid node count', 255),
        (["-N2:3"], '"2:3" is not a valid node count', 255),
        (["-N2-10:0"], '"2-10:0" is not a valid node count', 255),
        (["-N0,2"], '"0,2" is not a valid node count', 255),
    ],
)  # fmt: skip
def test_bad_values_are_named(words: list[str], text: str, code: int) -> None:
    with pytest.raises(OptionError) as caught:
        parsed(*words)
    assert (caught.value.text, caught.value.code) == (text, code)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--gpus=2 -N3", "Failed to validate job spec, --gpus < -N"),
        ("--gpus=2 --gpus-per-node=3",
         "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket"),
        ("--gres=gpu:1 --gpus-per-socket=2 --sockets-per-node=1",
         "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket"),
        ("--gpus=3 --gpus-per-task=2 -n2",
         "Failed to validate job spec, --gpus not multiple of --gpus-per-task"),
        ("--gpus=4 -N3 --gpus-per-node=2",
         "Failed to validate job spec. Based on --gpu and --gres=gpu/--gpus-per-node required "
         "nodes (2) doesn't fall between min_nodes (3) and max_nodes (3) boundaries."),
        ("--gpus-per-node=2 --gpus-per-socket=1 --sockets-per-node=1",
         "Failed to validate job spec. Based on --gres=gpu/--gpus-per-node and --gpus-per-socket "
         "required number of sockets differ from --sockets-per-node."),
        ("--gres=gpu:2 --gpus-per-task=1",
         "Failed to validate job spec. --gpus-per-task used without either --gpus or -n/--ntasks "
         "is not allowed."),
        ("-N1-3 --gpus-per-task=1",
         "Failed to validate job spec. --gpus-per-task used without either --gpus or -n/--ntasks "
         "is not allowed."),
        ("--gpus=2 --gpus-per-task=3",
         "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket"),
        ("--gpus-per-node=2 --gpus-per-task=3 -n1", "Failed to ensure --gpus >= --gpus-per-task"),
        ("--gpus=3 --gpus-per-node=2",
         "Failed to validate job spec, --gpus is not multiple of --gres=gpu/--gpus-per-node"),
        ("--gpus-per-node=3 --gpus-per-socket=2 --sockets-per-node=1",
         "Failed to validate job spec, --gres=gpu/--gpus-per-node not multiple of "
         "--gpus-per-socket."),
        ("--gpus-per-node=3 --gpus-per-task=2 -n2",
         "Failed to validate job spec, --gres=gpu/--gpus-per-node not multiple of "
         "--gpus-per-task."),
        ("--gpus=2 --gpus-per-task=1 -n3",
         "Failed to validate job spec. Based on --gpus and --gpus-per-task number of requested "
         "tasks differ from -n/--ntasks."),
        ("--gpus=4 --gpus-per-task=1 --ntasks-per-node=2",
         "Failed to validate job spec. Based on --gpus and --gpus-per-task number of requested "
         "tasks differ from -n/--ntasks."),
        ("--gpus-per-node=2 --gpus-per-task=1 --ntasks-per-node=3",
         "Failed to validate job spec. Based on --gres=gpu/--gpus-per-node and --gpus-per-task "
         "requested number of tasks per node differ from --ntasks-per-node."),
        ("--ntasks-per-gpu=2 -n5",
         "Failed to validate job spec, -n/--ntasks has to be a multiple of --ntasks-per-gpu."),
        ("--ntasks-per-gpu=2 -N1-2",
         "gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a "
         "node/ntask specification"),
        ("--mem-per-gpu=1G",
         "Requested mem_per_tres=gres/gpu:1024 but did not request any GPU."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["sbatch", "srun"])
def test_gpus_that_do_not_add_up_are_named(words: str, text: str, command: str) -> None:
    """As Slurm 22.05 says it, line by line."""
    with pytest.raises(OptionError) as caught:
        parsed(*words.split(), command=command)
    lines = f"{text}\nInvalid generic resource (gres) specification"
    assert (caught.value.text, caught.value.code) == (lines, 1)


@pytest.mark.parametrize(
    "words",
    ["--gpus=4 -N1-2 --gpus-per-node=2", "-N2 --gpus-per-task=1", "--gpus=7 -N2-3",
     "--gpus=4 --gpus-per-task=1", "--gpus=4 --gpus-per-task=1 --ntasks-per-node=2 -N2",
     "--mem-per-gpu=1G --gres=gpu:1",
     "--mem-per-gpu=1G -n1 --tres-per-task=gres/gpu=1"],
)  # fmt: skip
def test_gpus_that_add_up_are_taken(words: str) -> None:
    assert parsed(*words.split()).request


@pytest.mark.parametrize(
    ("words", "gres"),
    [("--gres=gpu:2 --gpus-per-node=2", ""), ("--gres=gpu --gpus-per-node=1", ""),
     ("--gres=shard:1,gpu:a100:2 --gpus-per-node=a100:2", "shard:1"),
     ("--gres=gpu:1 --gpus-per-node=2", "gpu:1")],
)  # fmt: skip
def test_the_same_gpus_may_be_asked_for_twice(words: str, gres: str) -> None:
    """A script has --gres, the command line --gpus-per-node; the controller sees them once."""
    assert parsed(*words.split()).request["gres"] == gres


@pytest.mark.parametrize(
    "words", ["-m plane=4 -N2 -n5", "-m plane=4 -n2", "-m plane=4 -N2 --ntasks-per-node=4"]
)
def test_planes_with_tasks_for_the_last_node_are_taken(words: str) -> None:
    assert parsed(*words.split()).request["plane_size"] == 4


def test_srun_does_without_names_beyond_its_nodes() -> None:
    """It says which limit it keeps to, and goes on."""
    options = op.Options("srun")
    pairs, _ = options.split_words(["-N1", "-w", "n[1-2]"])
    options.apply_all(pairs, COMMAND_LINE)
    assert options.finish() == [
        "error: Required nodelist includes more nodes than permitted by max-node count (2 > 1). "
        "Eliminating nodes from the nodelist."
    ]
    assert options.request["node_list"] == "n1"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hint_yields_to_what_says_the_same_in_detail(command: str) -> None:
    options = op.Options(command)
    words = ["--hint=nomultithread", "--threads-per-core=2"]
    options.apply_all(options.split_words(words)[0], COMMAND_LINE)
    assert options.finish() == [
        "warning: Following options are mutually exclusive with --hint: --ntasks-per-core, "
        "--threads-per-core, -B and --cpu-bind (other than --cpu-bind=verbose). Ignoring --hint."
    ]
    assert (options.request.get("hint"), options.request["threads_per_core"]) == (None, 2)
    assert "hint" not in options.given  # -v does not show it


@pytest.mark.parametrize(
    ("environment", "words", "hint", "threads", "warns"),
    [
        ({"SLURM_HINT": "nomultithread"}, ["--threads-per-core=2"], None, 2, False),
        ({"SLURM_THREADS_PER_CORE": "2"}, ["--hint=nomultithread"], "nomultithread", 1, False),
        ({"SLURM_HINT": "nomultithread", "SLURM_THREADS_PER_CORE": "2"}, [], None, 2, True),
        ({"SLURM_HINT": "nomultithread"}, ["--cpu-bind=verbose"], "nomultithread", 1, False),
        ({"SLURM_HINT": "multithread"}, ["--cpu-bind=cores"], None, None, False),
    ],
)
def test_hints_of_the_environment(
    environment: dict[str, str], words: list[str], hint: str | None, threads: int, warns: bool
) -> None:
    """The command line is stronger, whichever of the two it names."""
    options = op.Options("srun")
    options.apply_environment(environment)
    options.apply_all(options.split_words(words)[0], COMMAND_LINE)
    odd = options.finish()
    assert (options.request.get("hint"), options.request.get("threads_per_core")) == (hint, threads)
    assert [line.endswith("Ignoring SLURM_HINT.") for line in odd] == [True] * warns


def test_planes_of_a_jobs_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """SLURM_DISTRIBUTION=plane says nothing of their size: another variable has it."""
    monkeypatch.setenv("SLURM_DIST_PLANESIZE", "3")
    options = op.Options("srun")
    options.apply_environment({"SLURM_DISTRIBUTION": "plane"})
    assert options.request == {"distribution": "plane=3", "plane_size": 3}
    with pytest.raises(OptionError, match="size not specified"):
        parsed("-m", "plane", command="srun")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_list_of_nodes_is_a_count_of_none(command: str) -> None:
    """The controller refuses it, as Slurm does; with -N it is as if it were not there."""
    request = parsed("-w", "", command=command).request
    assert (request["nodes_min"], request["nodes_max"]) == (0, 0)
    assert request["flags"] & REQ_NODES_SET
    assert parsed("-w", "", "-N1", command=command).request["nodes_min"] == 1


@pytest.mark.parametrize(
    ("value", "flags"), [("1", REQ_OVERCOMMIT), ("yes", REQ_OVERCOMMIT), ("no", 0)]
)
def test_switches_of_the_environment_can_say_no(value: str, flags: int) -> None:
    options = op.Options("sbatch")
    options.apply_environment({"SBATCH_OVERCOMMIT": value})
    assert options.request.get("flags", 0) == flags


@given(
    words=st.lists(
        st.one_of(
            st.text(max_size=12),
            st.builds(
                lambda row, value: f"--{row[0]}={value}",
                st.sampled_from([row for row in OPTIONS if row[0] not in ("uid", "gid")]),
                st.text(alphabet="0123456789abcgpuGKM:-,=@%*|/", max_size=10),
            ),
        ),
        max_size=4,
    ),
    command=st.sampled_from(COMMANDS),
)
def test_no_words_end_in_a_traceback(words: list[str], command: str) -> None:
    """Any words give a request of known fields, or one error."""
    options = op.Options(command)
    said, code = "", 0
    try:
        pairs, _ = options.split_words(words)
        options.apply_all(pairs, COMMAND_LINE)
        options.finish()
    except OptionError as problem:
        said, code = problem.text, problem.code
    except HelpRequested as told:
        said = told.text
    assert bool(said) or not code
    assert code in (0, 1, 255)
    assert set(options.request) <= FIELDS


# Directives -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" -n 2 # two", ["-n", "2"]),
        (" --comment='x y' -o \"a#b\"", ["--comment=x y", "-o", "a#b"]),
        (r" -o a\ b", ["-o", "a", "b"]),  # unlike in a shell
        (" --comment=''", ["--comment="]),
        (" -J a#b -n 2", ["-J", "a"]),
        (r" -J a\#b -n 2", ["-J", "a#b", "-n", "2"]),
        (" -n 2 \\", ["-n", "2"]),
        (" ", []),
    ],
)
def test_directive_is_split_as_a_shell_would(text: str, words: list[str]) -> None:
    assert split_directive(text, "stdin: line 2") == words


@given(text=st.text(max_size=40))
def test_any_directive_is_split_or_refused(text: str) -> None:
    said = ""
    try:
        split_directive(text, "stdin: line 2")
    except OptionError as problem:
        said = problem.text
    assert not said or "Unmatched" in said


@pytest.mark.parametrize(
    ("words", "count", "wait_s"),
    [
        (["--switches=2"], 2, 2**32 - 1),
        (["--switches=1@10"], 1, 600),
        (["--switches=1@1-0"], 1, 86400),
    ],
)
def test_leaf_switches_and_how_long_to_wait(words: list[str], count: int, wait_s: int) -> None:
    """No time given: as long as the configuration allows."""
    options = op.Options("sbatch")
    pairs, _ = options.split_words(words)
    options.apply_all(pairs, COMMAND_LINE)
    assert (options.request["switches"], options.request["switches_wait_s"]) == (count, wait_s)


def test_leaf_switches_of_the_environment() -> None:
    """The count and the time have a variable each."""
    options = op.Options("sbatch")
    options.apply_environment({"SBATCH_REQ_SWITCH": "1", "SBATCH_WAIT4SWITCH": "5:30"})
    assert options.request == {"switches": 1, "switches_wait_s": 330}


@pytest.mark.parametrize(("words", "option"), [("-S2", "-S"), ("--thread-spec=2", "--thread-spec")])
def test_cores_for_the_system_are_the_administrators(
    words: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without AllowSpecResourcesUsage the option is named and passed over."""
    options = parsed(words)
    submission.check_configured(options, {"AllowSpecResourcesUsage": "yes"})
    assert options.request.get("core_spec") or options.request.get("thread_spec")
    assert not capsys.readouterr().err
    submission.check_configured(options, {})
    assert not options.request.get("core_spec")
    assert not options.request.get("thread_spec")
    assert capsys.readouterr().err == (
        f"sbatch: error: Ignoring {option} since it's not allowed by configuration "
        "(AllowSpecResourcesUsage = No)\n"
    )


def test_cpus_of_each_gpu_need_a_cluster_that_has_gpus() -> None:
    """As every option that asks for GPUs: GresTypes must name them."""
    options = parsed("--cpus-per-gpu=2")
    options.check_resources("gpu,fpga")
    with pytest.raises(OptionError, match="Invalid generic resource"):
        options.check_resources("fpga")


def test_a_qos_is_lower_case() -> None:
    """As accounts are: sacctmgr makes it so, and `-q NORMAL` means it."""
    assert parsed("-q", "High,NORMAL").request["qos"] == "high,normal"
