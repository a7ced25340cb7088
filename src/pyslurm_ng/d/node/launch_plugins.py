"""The plugins of plugstack.conf, as this node's steps are told of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyslurm_ng.conf.plugstack import PlugStack, read_plugstack, stack_path
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import option_int
from pyslurm_ng.d.node.bad_setup import BadSetup
from pyslurm_ng.policy.spank_stack import unusable

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import PluginsSpec

_LIMIT_S = 30


def launch_plugins(conf: SlurmConf, service_uid: int, warnings: list[str]) -> PluginsSpec | None:
    """Return the plugins of every step here, None if there are none.

    Args:
        warnings: gets a line for each optional plugin that is left out.

    Raises:
        BadSetup: a required plugin cannot be used.
    """
    stack: PlugStack = read_plugstack(stack_path(conf.path, conf.plugstack_config))
    owners = sorted({0, service_uid, os.geteuid()})
    warnings += [f"{file}:{line}: {word}: {text}" for file, line, word, text in stack.left_out]
    problems, lines = [], []
    for line in stack.lines:
        text = unusable(line, owners)
        if not text:
            lines.append(line)
        elif line.is_required:
            problems.append(f"{line.file}:{line.number}: required: {text}")
        else:
            warnings.append(f"{line.file}:{line.number}: optional: {text}; it is left out")
    if problems:
        raise BadSetup(problems)
    if not lines:
        return None
    limit_s = option_int(conf.slurmd_parameters, "spank_timeout", _LIMIT_S)
    return {"lines": [line.fields() for line in lines], "owners": owners, "limit_s": limit_s}
