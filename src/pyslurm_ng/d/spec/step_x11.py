"""What a supervisor is told for --x11."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.base.errors import Errno, error_text
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.d.spec.node_setup import NodeSetup, SpecError
from pyslurm_ng.wire.node_messages import JobCredential, LaunchStep

if TYPE_CHECKING:
    from pyslurm_ng.d.spec.node_setup import Account
    from pyslurm_ng.d.spool import step_contract as sc

_WORDS = ("all", "batch", "first", "last")


def x11_spec(
    setup: NodeSetup, credential: JobCredential, request: LaunchStep, account: Account
) -> sc.X11Spec | None:
    """Return how this node forwards X11; None if it does not.

    Raises:
        SpecError: PrologFlags has no X11, or the words are wrong.
    """
    word, cookie = request.x11
    if not word:
        return None
    if not has_option(setup.conf.prolog_flags, "x11") or request.route is None:
        raise SpecError(error_text(Errno.ESLURM_X11_NOT_AVAIL))
    if word not in _WORDS or len(cookie) < 16:
        raise SpecError(f"x11: {', '.join(_WORDS)} and a cookie of 16 bytes are allowed")
    nodes = list(credential.step_nodes)
    chosen = {"all": nodes, "last": nodes[-1:]}.get(word, nodes[:1])
    if setup.node_name not in chosen:
        return None
    at_home = has_option(setup.conf.x11_parameters, "home_xauthority")
    directory = "" if at_home else setup.conf.tmp_fs
    return {"cookie": cookie, "directory": directory, "home": account.home}
