"""--mpi, SLURM_MPI_TYPE and MpiDefault: which kind a step has, and what cannot be."""

from __future__ import annotations

import pytest

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.step import mpi_kinds
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.options import Options


def options_of(words: list[str], variables: dict[str, str]) -> Options:
    options = Options("srun")
    pairs, _ = options.split_words(words)
    options.apply_environment(variables)
    options.apply_all(pairs, COMMAND_LINE)
    return options


@pytest.mark.parametrize(
    ("words", "variables", "default", "kind"),
    [
        ([], {}, "", ""),
        ([], {}, "pmi2", "pmi2"),
        ([], {}, "mpi/pmi2", "pmi2"),
        ([], {"SLURM_MPI_TYPE": "none"}, "pmi2", "none"),
        (["--mpi=pmi2"], {"SLURM_MPI_TYPE": "none"}, "", "pmi2"),
        (["--external-launcher"], {"SLURM_MPI_TYPE": "pmi2"}, "pmi2", "none"),
        (["--external-launcher", "--mpi=pmi2"], {}, "", "pmi2"),
    ],
)
def test_which_kind(words: list[str], variables: dict[str, str], default: str, kind: str) -> None:
    """The command line counts before the variable, and that before the configuration."""
    assert mpi_kinds.chosen(options_of(words, variables), default) == kind


@pytest.mark.parametrize("kind", ["frob", "cray_shasta", "pmix_v77", "openmpi"])
def test_what_there_is_not_is_refused_as_slurm_does(kind: str) -> None:
    with pytest.raises(OptionError) as refused:
        mpi_kinds.chosen(options_of([f"--mpi={kind}"], {}), "")
    last = refused.value.text.splitlines()[-1]
    assert last == f"Invalid MPI type '{kind}', --mpi=list for acceptable types"
    assert refused.value.code == 1


def test_a_default_that_there_is_not_is_refused_too() -> None:
    """The ranks would not know each other."""
    with pytest.raises(OptionError):
        mpi_kinds.chosen(options_of([], {}), "cray_shasta")
