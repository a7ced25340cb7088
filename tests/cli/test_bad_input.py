"""Bad input gets one clear line and Slurm's exit code, never a traceback."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.cli.reference_cluster import queue
from tests.cli.run_command import run_command
from tests.world.examples import drawn


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("squeue -w nope", "squeue: error: Invalid node name nope\n"),
        ("squeue -S ?", "squeue: error: Invalid sort specification: ?\n"),
        ("squeue -i x", "squeue: error: --iterate=x\n\n"),
        (f"squeue -i {10**30}", f"squeue: error: --iterate={10**30}\n\n"),
        ("squeue -j a", "squeue: error: Invalid job id: a\n"),
        ("squeue --st", "squeue: option '--st' is ambiguous; possibilities: '--start' '--states' "
         '\'--steps\'\nTry "squeue --help" for more information\n'),
        ("sinfo -n n[1", None),
        ("scontrol show frob", "invalid entity:frob for keyword:show \n"),
        ("scontrol show job x", "scontrol_print_job error: Invalid job id specified\n"),
        ("scontrol show job 998,999", "slurm_load_jobs error: Invalid job id specified\n"),
        ("scontrol show job 999 --json",
         "slurm_load_jobs error: Invalid job id specified\n"),
        ("scontrol update", "too few arguments for update keyword\n"),
        ("scontrol hold", "too few arguments for keyword:hold\n"),
        ("scontrol getent", "scontrol: error: getent is not supported yet\n"),
        ("scontrol update JobId=29 StartTime=frob", None),
        ("scontrol update NodeName=nope Comment=x", None),
        ("scontrol update JobId=999 Comment=x", "Invalid job id specified for job 999\n"),
        ("sdiag extra", "sdiag: error: Unrecognized option: extra\n"),
        ("scancel -s FROB 1", "Unknown job signal: FROB\n"),
        ("scancel -t DONE", "Invalid job state specified: DONE\n"
         "Valid job states are PENDING, RUNNING, and SUSPENDED\n"),
        ("scancel -u nosuch", "scancel: error: Invalid user name: nosuch\n"),
    ],
)  # fmt: skip
def test_says_what_is_wrong(line: str, text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line (some of Slurm's have two), exit 1."""
    printed = run_command(monkeypatch, queue(), "root", line.split())
    assert printed.code == 1
    if text is None:
        assert printed.stderr and "Traceback" not in printed.stderr
    else:
        assert printed.stderr == text


WORDS = st.one_of(
    st.sampled_from(
        "-o %i%all -O jobid:.5 name:0 -S -t all R,PD -s -r -P --start -j 27 27_3 -w n1 -p main "
        "-u alice -l -h --json -N -e -R -T show job node partition step -d update JobId=29 "
        "Nice= Priority=5 NodeName=n1 State= = + Reason=x PartitionName=main MaxTime=x hold "
        "create delete -i -n -f -b".split()
    ),
    # No word of a command line can hold a NUL.
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
)
REFERENCE = queue()


@settings(
    max_examples=drawn(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    command=st.sampled_from(["squeue", "sinfo", "scontrol", "scancel", "sdiag"]),
    words=st.lists(WORDS, min_size=1, max_size=6),
)
def test_no_words_make_a_command_break(
    command: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It prints something or nothing and leaves with an exit code."""
    if {"-i", "--iterate"} & set(words) or any(word.startswith("wait") for word in words):
        return
    printed = run_command(monkeypatch, REFERENCE, "alice", [command, *words])
    assert 0 <= printed.code < 256
