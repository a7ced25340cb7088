"""The meter as a process, started by slurmd: settings as a line of JSON on stdin, until its end.

What it has to say to administrators are lines on stdout, which slurmd logs.
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import Any

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.d.meter import snapshot, traffic
from pyslurm_ng.d.meter.gpu_usage import GpuUse
from pyslurm_ng.d.meter.power import CRAY_ROOT, RAPL_ROOT, CrayPower, IpmiPower, Power, RaplPower
from pyslurm_ng.d.meter.readers import Gpus, NodePower, NodeTraffic, SourceThread
from pyslurm_ng.d.spool.step_record import start_ticks

_GPUS = "GPUs"
_MOST_AGE_US = 60 * SECOND_US


def say(text: str) -> None:
    """Tell slurmd's log a line."""
    try:
        os.write(1, f"{text}\n".encode("utf-8", "replace")[:1024])
    except OSError:
        return  # slurmd has gone, and so shall we


class MeanPower:
    """The mean power of counters, each since it was first read: they begin at different times."""

    def __init__(self) -> None:
        self._began: dict[str, tuple[int, int]] = {}  # microjoules and time, by counter

    def milliwatts(self, counters: dict[str, list[int]], now_us: int) -> int:
        """Return the sum over the counters, which are pairs of microjoules and milliwatts."""
        total_mw = 0
        for name, (now_uj, now_mw) in counters.items():
            began_uj, began_us = self._began.setdefault(name, (now_uj, now_us))
            if now_uj < began_uj:  # it began again
                began_uj, began_us = self._began[name] = now_uj, now_us
            span_us = now_us - began_us
            mean_mw = now_mw if span_us < SECOND_US else (now_uj - began_uj) * 1000 // span_us
            total_mw += mean_mw
        return total_mw


def until_now(power: list[int], age_us: int) -> tuple[int, int]:
    """Return a counter and its power as they are now: a BMC is asked every half minute only."""
    total_uj, milliwatts = power
    return total_uj + milliwatts * min(max(0, age_us), _MOST_AGE_US) // 1000, milliwatts


class Meter:
    """All sources of one node.

    Args:
        settings: see `node.node_meter`.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._path: str = settings["path"]
        before = snapshot.read(self._path, any_age=True)
        self._state: dict[str, Any] = before.get("state") or {}
        self._mean = MeanPower()
        energy: list[str] = settings["energy"]
        pause_s = float(settings["pause_s"])
        self._threads: list[SourceThread] = []
        if settings["gpus"] or "gpu" in energy:
            has_energy = "gpu" in energy
            use = GpuUse(
                start_ticks, settings.get("gpu_numbers", ()), energy=has_energy,
                before=self._state.get(_GPUS),
            )  # fmt: skip
            gpus = Gpus(use, has_energy=has_energy)
            self._threads.append(SourceThread(_GPUS, gpus, pause_s, say))
        for name in energy:
            if name == "gpu":
                continue
            power_pause_s = float(settings["ipmi_s"]) if name == "ipmi" else pause_s
            source = NodePower(name, self._power(name, settings))
            self._threads.append(SourceThread(name, source, power_pause_s, say))
        self._parts: dict[str, str] = {}  # of the file, by name of a source of traffic
        for part, kind, detail in settings.get("traffic", ()):
            name = f"{part}/{kind}"
            self._parts[name] = part
            counters = _traffic(kind, detail, settings.get("root", "/"), self._state.get(name))
            self._threads.append(SourceThread(name, NodeTraffic(counters), pause_s, say))
        for thread in self._threads:
            thread.begin()

    def _power(self, name: str, settings: dict[str, Any]) -> Power:
        before = self._state.get(name)
        if name == "rapl":
            return RaplPower(before, settings.get("rapl_root", RAPL_ROOT))
        if name == "pm_counters":
            return CrayPower(before, settings.get("cray_root", CRAY_ROOT))
        return IpmiPower(
            before, sensors=settings["ipmi_sensors"], limit_s=float(settings["ipmi_limit_s"])
        )

    def fields(self) -> dict[str, Any]:
        """Return what the file says now."""
        fields: dict[str, Any] = {"processes": [], "gpus": {}, "node": [], "state": self._state}
        total_uj = milliwatts = 0
        counters: dict[str, list[int]] = {}
        fields["sensors"] = {}
        for thread in self._threads:
            reading = thread.reading()
            if not reading:
                continue
            if thread.name == _GPUS:
                fields["processes"] = reading["processes"]
                fields["gpus"] = reading.get("gpus", {})
                fields["lost"] = reading["lost"]
                self._state[_GPUS] = reading.get("gpu_state")
                counters |= {f"gpu{minor}": row for minor, row in fields["gpus"].items()}
                continue
            if thread.name in self._parts:
                part = self._parts[thread.name]
                both = zip(fields.get(part, [0, 0, 0, 0]), reading["totals"], strict=True)
                fields[part] = [total + more for total, more in both]
                self._state[thread.name] = reading["state"]
                continue
            fields["sensors"] |= reading["sensors"]
            power_uj, power_mw = until_now(reading["power"], snapshot.now_us() - thread.at_us)
            counters[thread.name] = [power_uj, power_mw]
            total_uj += power_uj
            milliwatts += power_mw
            self._state[thread.name] = reading["state"]
            fields["node"] = [total_uj, milliwatts]
        fields["mean"] = self._mean.milliwatts(counters, snapshot.now_us())
        fields["boot"], fields["time_us"] = snapshot.boot_id(), snapshot.now_us()
        return fields

    def write(self) -> None:
        """Replace the file; a full disk costs this look only."""
        try:
            snapshot.write(self._path, self.fields())
        except OSError as error:
            say(f"{self._path}: {error.strerror}")


def _traffic(kind: str, detail: Any, root: str, before: Any) -> traffic.Traffic:
    """Return the counters of `ofed` (a port), `sysfs` (interfaces) or `lustre`."""
    if kind == "ofed":
        return traffic.Traffic(lambda: traffic.infiniband(detail, root), before)
    if kind == "sysfs":
        return traffic.Traffic(lambda: traffic.interfaces(detail, root), before)
    return traffic.Traffic(lambda: traffic.lustre(root), before)


def main() -> int:
    """Measure until stdin ends."""
    settings = json.loads(sys.stdin.readline())
    meter = Meter(settings)
    pause_s = min(1.0, float(settings["pause_s"]))
    while True:
        ready, _, _ = select.select([0], [], [], pause_s)
        if ready and not os.read(0, 4096):
            os._exit(0)  # a thread that hangs in a driver must not keep the process
        meter.write()


if __name__ == "__main__":
    sys.exit(main())
