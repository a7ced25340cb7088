"""What a supervisor is told for --profile."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyslurm_ng.base.request_words import sampling_s, series_of
from pyslurm_ng.d.meter import snapshot
from pyslurm_ng.d.spec.node_setup import Account, NodeSetup
from pyslurm_ng.d.spec.step_meter import energy_sources
from pyslurm_ng.model.ids import STEP_EXTERN, step_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyslurm_ng.d.spool import step_contract as sc
    from pyslurm_ng.wire import node_messages as nm

_START = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(':'); "
    "from pyslurm_ng.d.profile.publisher import main; sys.exit(main())"
)
_WORDS = {"lustre": "filesystem"}
"""How JobAcctGatherFrequency calls a series."""


def profile_spec(
    setup: NodeSetup,
    credential: nm.JobCredential,
    account: Account,
    every_s: int,
    asked: str = "",
    asked_freq: str = "",
) -> sc.ProfileSpec | None:
    """Return which series of a step are kept and where they go; None if none is.

    Args:
        every_s: how often its tasks are sampled.
        asked: --profile of the step, "" if it has none; then the job's or the default counts.
        asked_freq: --acctg-freq of the step.
    """
    conf, gather = setup.conf, setup.gather
    kind = conf.acct_gather_profile_type.rpartition("/")[2]
    if kind not in ("hdf5", "influxdb") or credential.step_id == STEP_EXTERN:
        return None
    default = gather.profile_hdf5_default if kind == "hdf5" else gather.profile_influxdb_default
    words = asked or credential.request.profile or ",".join(default) or "none"
    intervals = _intervals(
        _series(words), (conf.job_acct_gather_frequency, credential.request.acctg_freq.split(","),
                         asked_freq.split(",")), every_s,
    )  # fmt: skip
    sources = energy_sources(conf)
    if not sources:
        intervals.pop("energy", None)
    if not conf.acct_gather_interconnect_type:
        intervals.pop("network", None)
    if not conf.acct_gather_filesystem_type:
        intervals.pop("lustre", None)
    if not intervals:
        return None
    return {
        "every_s": intervals,
        "meter": f"{setup.spool}/{snapshot.FILE}",
        "command": publisher_command(),
        "starts_at_once": kind == "influxdb",
        "about": _about(setup, credential, account, kind),
    }


def publisher_command() -> list[str]:
    """Return what starts `d.profile.publisher` with our own packages, whatever the environment."""
    return [sys.executable, "-I", "-c", _START, ":".join(sys.path)]


def _about(
    setup: NodeSetup, credential: nm.JobCredential, account: Account, kind: str
) -> dict[str, object]:
    """Return what the publisher is told of the step."""
    position = max(0, _index(credential.step_nodes, setup.node_name))
    tasks = credential.step_tasks[position] if position < len(credential.step_tasks) else ()
    labels = [label for label, ids in setup.gather.sensors if ids] if _asks_ipmi(setup) else []
    return {
        "kind": kind,
        "conf": setup.gather.path,
        "job": credential.job_id,
        "step": step_text(credential.step_id),
        "step_number": credential.step_id - (1 << 32 if credential.step_id >= 1 << 31 else 0),
        "node": setup.node_name,
        "node_index": position,
        "ntasks": len(tasks) or 1,
        "cpus_per_task": max(1, credential.request.cpus_per_task),
        "labels": labels or [""],
        "gpus": any(gres.name == "gpu" for gres in setup.devices),
        "owner": {
            "user": credential.user_name, "uid": credential.uid, "gid": credential.gid,
            "groups": list(account.groups),
        },
        "tags": {
            "cluster": setup.conf.cluster_name, "user": credential.user_name,
            "uid": str(credential.uid),
        },
    }  # fmt: skip


def _asks_ipmi(setup: NodeSetup) -> bool:
    return energy_sources(setup.conf) == ["ipmi"]


def _series(words: str) -> tuple[str, ...]:
    try:
        return series_of(words)
    except ValueError:
        return ()  # of a request that came by REST: it was kept as it was written


def _intervals(
    series: Sequence[str], texts: Sequence[Sequence[str]], every_s: int
) -> dict[str, int]:
    """Return the seconds between samples by series; one that is never sampled is missing."""
    intervals: dict[str, int] = {}
    for name in series:
        seconds = every_s if name == "task" else 0
        for words in texts if name != "task" else ():
            own = sampling_s(words, _WORDS.get(name, name))
            seconds = seconds if own is None else own
        if seconds:
            intervals[name] = seconds
    return intervals


def _index(names: Sequence[str], name: str) -> int:
    return list(names).index(name) if name in names else -1
