"""The variables that srun itself gives to its tasks."""

from __future__ import annotations

import pytest

from pyslurm_ng.cli.step.launch import task_environment
from pyslurm_ng.cli.submit import options as op
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE


def variables_of(*words: str, **environment: str) -> dict[str, str]:
    """Return what tasks of an srun with these options get, begun in an environment."""
    options = op.Options("srun")
    pairs, _ = options.split_words(list(words))
    options.apply_all(pairs, COMMAND_LINE)
    encoded = {name.encode(): value.encode() for name, value in environment.items()}
    content = task_environment(options, encoded, {"distribution": "block"})
    entries = content.decode().rstrip("\0").split("\0")
    return dict(entry.split("=", 1) for entry in entries)


@pytest.mark.parametrize(
    ("words", "level"), [((), "3"), (("-v",), "4"), (("-vvv",), "6"), (("-Q",), "2")]
)
def test_tasks_know_how_loud_srun_is(
    words: tuple[str, ...], level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manual: 3, more with -v and less with -Q."""
    monkeypatch.delenv("SRUN_DEBUG", raising=False)
    assert variables_of(*words)["SRUN_DEBUG"] == level


def test_a_loudness_that_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Slurm 22.05."""
    monkeypatch.setenv("SRUN_DEBUG", "7")
    assert variables_of("-v", SRUN_DEBUG="7")["SRUN_DEBUG"] == "7"


@pytest.mark.parametrize("words", [("--mem=50",), ("--mem-per-cpu=50",)])
def test_the_memory_of_a_step_is_in_no_variable(words: tuple[str, ...]) -> None:
    """As with Slurm: the variables are the job's, and a step within the step would take them."""
    inherited = variables_of(*words, SLURM_MEM_PER_NODE="100")
    assert inherited["SLURM_MEM_PER_NODE"] == "100"
    assert not any(name.startswith("SLURM_MEM_PER_") for name in variables_of(*words))
