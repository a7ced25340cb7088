"""slurmd's hold on the node's meter: started with its settings, again when it ends or they change.

The meter may hang in a driver for ever, so nothing here waits for it: what it says is read from
its file, and it ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from pyslurm_ng.base.request_words import SAMPLING_S, sampling_s
from pyslurm_ng.d.meter import snapshot
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.spec.node_setup import NodeSetup
from pyslurm_ng.d.spec.step_meter import energy_sources, gpu_numbers, measures_gpus

_START = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(':'); "
    "from pyslurm_ng.d.meter.__main__ import main; sys.exit(main())"
)
_LONGEST_PAUSE_S = 5
_AGAIN_S = 30.0
_LINE_BYTES = 4096
_MOST_WATTS = 1_000_000  # of a message


def settings_of(setup: NodeSetup) -> dict[str, Any] | None:
    """Return what the meter is told; None if the configuration needs none.

    Its pause is short, since what a process did after the last look is lost.
    """
    conf, gather = setup.conf, setup.gather
    files = [path for gres in setup.devices if gres.name == "gpu" for path in gres.files]
    gpus = measures_gpus(conf) and bool(gpu_numbers(files))
    energy = energy_sources(conf)
    traffic = _traffic(setup)
    if not (gpus or energy or traffic):
        return None
    sampling = sampling_s(conf.job_acct_gather_frequency)
    pauses = [
        _LONGEST_PAUSE_S, SAMPLING_S if sampling is None else sampling, conf.acct_gather_node_freq,
        *(sampling_s(conf.job_acct_gather_frequency, name)
          for name in ("energy", "network", "filesystem")),
    ]  # fmt: skip
    return {
        "path": f"{setup.spool}/{snapshot.FILE}",
        "pause_s": min(pause_s for pause_s in pauses if pause_s),
        "gpus": gpus,
        "gpu_numbers": gpu_numbers(files),
        "energy": energy,
        "ipmi_s": gather.energy_ipmi_frequency,
        "ipmi_limit_s": gather.energy_ipmi_timeout,
        "ipmi_sensors": [[label, list(ids)] for label, ids in gather.sensors],
        "traffic": traffic,
    }


def _traffic(setup: NodeSetup) -> list[list[Any]]:
    """Return what is counted of networks and file systems: part of the file, kind, what of it."""
    conf, gather = setup.conf, setup.gather
    sources: list[list[Any]] = []
    for plugin in conf.acct_gather_interconnect_type:
        if plugin.endswith("/ofed"):
            sources.append(["network", "ofed", gather.infiniband_ofed_port])
        elif plugin.endswith("/sysfs"):
            sources.append(["network", "sysfs", list(gather.sysfs_interfaces)])
    if conf.acct_gather_filesystem_type.endswith("/lustre"):
        sources.append(["filesystem", "lustre", 0])
    return sources


def power_of(fields: dict[str, Any]) -> tuple[int, int]:
    """Return watts now and on average of a snapshot, within what a message may say."""
    try:
        milliwatts = sum(row[1] for row in (*fields["gpus"].values(), fields["node"] or (0, 0)))
        watts, mean_watts = int(milliwatts) // 1000, int(fields["mean"]) // 1000
    except (KeyError, TypeError, ValueError, IndexError):
        return 0, 0
    return min(max(0, watts), _MOST_WATTS), min(max(0, mean_watts), _MOST_WATTS)


class NodeMeter:
    """The meter of this node, if its configuration needs one."""

    def __init__(self, node: LocalNode) -> None:
        self._node = node
        self._settings: dict[str, Any] | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self) -> None:
        """Have a meter as the configuration in force says."""
        settings = settings_of(self._node.configured)
        if settings == self._settings:
            return
        self.stop()
        self._settings = settings
        if settings is not None:
            self._task = asyncio.get_running_loop().create_task(self._keep(settings))

    def stop(self) -> None:
        """Let the meter end."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._settings = None

    def watts(self) -> tuple[int, int]:
        """Return what the node draws now and on average; zeros unless AcctGatherNodeFreq asks."""
        settings = self._settings
        if settings is None or not settings["energy"] or not self._node.conf.acct_gather_node_freq:
            return 0, 0
        fields = snapshot.read(settings["path"])
        return power_of(fields) if fields else (0, 0)

    def lost_gpus(self) -> frozenset[int] | None:
        """Return the numbers of GPUs that NVML has lost; None if it tells nothing now."""
        settings = self._settings
        lost = snapshot.read(settings["path"]).get("lost") if settings is not None else None
        if not isinstance(lost, list):
            return None
        return frozenset(number for number in lost if isinstance(number, int))

    async def _keep(self, settings: dict[str, Any]) -> None:
        while True:
            try:
                await self._run(settings)
            except (OSError, ValueError) as error:
                self._node.log.error(f"the meter of GPUs and power: {error}")
            await asyncio.sleep(_AGAIN_S)

    async def _run(self, settings: dict[str, Any]) -> None:
        """Start a meter and log what it says, until it ends. Raises OSError, ValueError."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-c", _START, ":".join(sys.path),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LINE_BYTES,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(settings).encode() + b"\n")
            while line := await process.stdout.readline():
                self._node.log.info(f"meter: {line.decode('utf-8', 'replace').strip()[:500]}")
        finally:
            process.stdin.close()  # it ends then; nobody waits for one that hangs
