"""--mpi: which kinds of MPI there are on this host, and which of them a step uses."""

import os

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.submit.options import Options

_TYPES = ("none", "pmi2")
_PMIX = "pmix"
_NO_RANKS = ("external-launcher", "interactive")
_ABSENT = {"cray_shasta": "it needs the network of a Cray"}


def chosen(options: "Options", default: str) -> str:
    """Return what --mpi, SLURM_MPI_TYPE or MpiDefault says; "" if none of them says anything.

    The launcher of another program starts the ranks itself, and a user's shell is no rank, so their
    steps have no MPI of ours; what is started in them still has the default.

    Raises:
        OptionError: a kind that there is not.
    """
    if any(name in options.settings for name in _NO_RANKS) and not _is_typed(options):
        return ""
    text = options.settings.get("mpi") or default
    text = text.lower().removeprefix("mpi/")
    if not text or text in _TYPES or (text.startswith(_PMIX) and _has_pmix(text)):
        return text
    raise OptionError(_refusal(text), 1)


def _has_pmix(text: str) -> bool:
    """Return whether this host has the library, and the version that pmix_vN asks for."""
    from pyslurm_ng.base import libpmix

    version = libpmix.major()
    return bool(version) and text in (_PMIX, f"{_PMIX}_v{version}")


def _is_typed(options: "Options") -> bool:
    return "mpi" in options.given and options.given["mpi"][0] == COMMAND_LINE


def _refusal(text: str) -> str:
    """Return Slurm's lines for a kind that cannot be loaded."""
    why = _ABSENT.get(text)
    first = f"{text}: {why}\n" if why else ""
    return (
        f"{first}MPI: Cannot create context for mpi/{text}\nMPI: Unable to load any plugin\n"
        f"Invalid MPI type '{text}', --mpi=list for acceptable types"
    )


def listing() -> str:
    """Return what --mpi=list prints."""
    from pyslurm_ng.base import libpmix

    version = libpmix.major()
    names = (*_TYPES, _PMIX) if version else _TYPES
    text = "MPI plugin types are...\n" + "".join(f"\t{name}\n" for name in names)
    if version:
        text += f"specific pmix plugin versions available: {_PMIX}_v{version}\n"
    return text


def without_outer_ranks(variables: "dict[bytes, bytes]") -> "dict[bytes, bytes]":
    """Return the variables without those by which a task of another step finds its server.

    A task may call srun, and its descriptor is not open in the tasks of that step.
    """
    if b"SLURM_PROCID" not in os.environb:
        return variables
    return {
        name: value
        for name, value in variables.items()
        if not (name in _OUTER or name.startswith(_OUTER_PMIX))
    }


_OUTER_PMIX = (b"PMIX_RANK", b"PMIX_NAMESPACE", b"PMIX_SERVER_")
_OUTER = {b"PMI_FD", b"PMI_RANK", b"PMI_SIZE", b"PMI_JOBID", b"PMI_SPAWNED"}
