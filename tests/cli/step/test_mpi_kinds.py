"""--mpi, SLURM_MPI_TYPE and MpiDefault: which kind a step has, and what cannot be."""

from __future__ import annotations

import pytest

from pyslurm_ng.base import libpmix
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
        (["--external-launcher"], {"SLURM_MPI_TYPE": "pmi2"}, "pmi2", ""),
        (["--interactive"], {}, "pmi2", ""),
        (["--external-launcher", "--mpi=pmi2"], {}, "", "pmi2"),
    ],
)
def test_which_kind(words: list[str], variables: dict[str, str], default: str, kind: str) -> None:
    """The command line counts before the variable, and that before the configuration."""
    assert mpi_kinds.chosen(options_of(words, variables), default) == kind


@pytest.mark.parametrize(
    ("kind", "version", "is_there"),
    [("pmix", 4, True), ("pmix_v4", 4, True), ("pmix_v5", 4, False), ("pmix", 0, False)],
)
def test_pmix_is_there_with_its_library(
    monkeypatch: pytest.MonkeyPatch, kind: str, version: int, is_there: bool
) -> None:
    """--mpi=pmix_vN asks for that version of it."""
    monkeypatch.setattr(libpmix, "major", lambda: version)
    options = options_of([f"--mpi={kind}"], {})
    if is_there:
        assert mpi_kinds.chosen(options, "") == kind
        assert mpi_kinds.listing().endswith(
            "\tpmix\nspecific pmix plugin versions available: pmix_v4\n"
        )
        return
    with pytest.raises(OptionError, match="Invalid MPI type"):
        mpi_kinds.chosen(options, "")


@pytest.mark.parametrize("kind", ["frob", "cray_shasta", "pmix_v77", "openmpi"])
def test_what_there_is_not_is_refused_as_slurm_does(kind: str) -> None:
    with pytest.raises(OptionError) as refused:
        mpi_kinds.chosen(options_of([f"--mpi={kind}"], {}), "")
    assert refused.value.text.splitlines()[-3:] == [
        f"MPI: Cannot create context for mpi/{kind}",
        "MPI: Unable to load any plugin",
        f"Invalid MPI type '{kind}', --mpi=list for acceptable types",
    ]
    assert "looking at all files" not in refused.value.text  # 22.05 said so, 26.11 does not
    assert refused.value.code == 1


def test_a_default_that_there_is_not_is_refused_too() -> None:
    """The ranks would not know each other."""
    with pytest.raises(OptionError):
        mpi_kinds.chosen(options_of([], {}), "cray_shasta")
