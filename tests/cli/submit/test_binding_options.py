"""--cpu-bind and --mem-bind as the commands read them."""

from __future__ import annotations

import pytest

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import binding_options
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE, HelpRequested
from pyslurm_ng.cli.submit.options import Options


def options_of(*words: str, command: str = "srun", **variables: str) -> Options:
    options = Options(command)
    options.apply_environment(variables)
    options.apply_all(options.split_words(list(words))[0], COMMAND_LINE)
    options.finish()
    return options


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "quiet"),
        (["--cpu-bind=v,socket"], "verbose,sockets"),
        (["--cpu_bind=cores"], "quiet,cores"),
        (["--hint=nomultithread"], "quiet,one_thread,threads"),
        (["--hint=compute_bound"], "quiet,cores"),
        (["--hint=multithread"], "quiet,threads"),
        (["--ntasks-per-core=1"], "quiet,cores"),
        (["--ntasks-per-socket=1"], "quiet,sockets"),
        (["--threads-per-core=1"], "quiet,threads"),
        (["-B", "2"], "quiet,sockets"),
        (["-B", "2:2"], "quiet,cores"),
        (["-B", "2:2:1"], "quiet,threads"),
        (["--cpu-bind=none", "--threads-per-core=1"], "quiet,none"),
        (["--cpu-bind=verbose", "--threads-per-core=1"], "verbose,threads"),
    ],
)
def test_other_options_name_what_to_bind_to(words: list[str], expected: str) -> None:
    assert binding_options.step_cpu_bind(options_of(*words)).text() == expected


def test_the_command_line_goes_before_the_variable() -> None:
    options = options_of("--cpu_bind=cores", SLURM_CPU_BIND="verbose,threads")
    assert binding_options.cpu_bind_variables(options)["SLURM_CPU_BIND"] == "quiet,cores"


@pytest.mark.parametrize("command", ["srun", "sbatch", "salloc"])
def test_memory_binding_is_in_variables(command: str) -> None:
    """Every command takes --mem-bind, and a job's steps read its variable."""
    options = options_of("--mem-bind=prefer,map_mem:0,1", command=command)
    assert binding_options.mem_bind_variables(options) == {
        "SLURM_MEM_BIND": "quiet,prefer,map_mem:0,1",
        "SLURM_MEM_BIND_LIST": "0,1",
        "SLURM_MEM_BIND_PREFER": "prefer",
        "SLURM_MEM_BIND_TYPE": "map_mem:",
        "SLURM_MEM_BIND_VERBOSE": "quiet",
    }
    assert binding_options.mem_bind_variables(options_of(command=command)) == {}


def test_bad_words_have_slurms_codes() -> None:
    with pytest.raises(OptionError) as refused:
        options_of("--cpu-bind=foo")
    assert refused.value.code == 1
    assert refused.value.text.endswith("\nfatal: Failed to parse --cpu-bind= values.")
    with pytest.raises(OptionError) as refused:
        options_of("--mem-bind=foo")
    assert (refused.value.code, refused.value.text) == (
        255,
        'unrecognized --mem-bind argument "foo"',
    )


def test_a_binding_of_help_explains_itself() -> None:
    for name in ("cpu-bind", "mem-bind"):
        with pytest.raises(HelpRequested, match=f"--{name}="):
            options_of(f"--{name}=help")


def test_masks_of_the_outer_step_are_not_inherited() -> None:
    """They are for one task on one node. Words that the user typed are inherited."""
    step = {
        "SLURM_STEP_ID": "0",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x0003",
        "SLURM_CPU_BIND_TYPE": "mask_cpu:",
        "SLURM_CPU_BIND_LIST": "0x0003",
    }
    assert "SLURM_CPU_BIND" not in binding_options.without_step_masks(step)
    said = step | {"SLURM_CPU_BIND": "cores"}
    assert binding_options.without_step_masks(said) == said
