"""Sources of measurements, each in a thread of its own: one that hangs delays no other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.d.meter.gpu_usage import GpuUse
from pyslurm_ng.d.meter.power import IpmiPower, Power, PowerError
from pyslurm_ng.d.meter.snapshot import now_us
from pyslurm_ng.d.meter.traffic import Traffic, TrafficError

_SILENT_US = 30 * SECOND_US
_AGAIN_S = 30.0


class SourceError(Exception):
    """A source tells nothing now; one line for the log."""


class Asked(Protocol):
    """What a thread asks."""

    def ask(self) -> dict[str, Any]:
        """Return the newest reading; may take for ever. Raises SourceError."""


class Gpus:
    """NVML, begun again after each error."""

    def __init__(self, use: GpuUse, *, has_energy: bool) -> None:
        self._use = use
        self._has_energy = has_energy
        self._nvml: Any = None

    def ask(self) -> dict[str, Any]:
        try:
            import pynvml
        except ImportError:
            raise SourceError("the Python package nvidia-ml-py is not installed") from None
        try:
            if self._nvml is None:
                pynvml.nvmlInit()
                self._nvml = pynvml
            self._use.sample(pynvml, now_us())
        except pynvml.NVMLError as error:
            self._end(pynvml)
            raise SourceError(f"NVML: {error}") from None
        energy = {"gpus": self._use.gpus(), "gpu_state": self._use.state()}
        lost = sorted(self._use.lost)
        return {"processes": self._use.rows(), "lost": lost, **(energy if self._has_energy else {})}

    def _end(self, nvml: Any) -> None:
        if self._nvml is not None:
            self._nvml = None
            try:
                nvml.nvmlShutdown()
            except nvml.NVMLError:
                return


class NodePower:
    """A source of the node's energy."""

    def __init__(self, name: str, power: Power) -> None:
        self._name = name
        self._power = power

    def ask(self) -> dict[str, Any]:
        try:
            self._power.sample(now_us())
        except PowerError as error:
            raise SourceError(str(error)) from None
        total_uj, milliwatts = self._power.reading()
        sensors = self._power.sensors() if isinstance(self._power, IpmiPower) else {}
        return {
            "power": [total_uj, milliwatts], "sensors": sensors, "state": self._power.state(),
        }  # fmt: skip


class NodeTraffic:
    """Counters of a network or file system."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    def ask(self) -> dict[str, Any]:
        try:
            self._traffic.sample()
        except TrafficError as error:
            raise SourceError(str(error)) from None
        return {"totals": self._traffic.totals(), "state": self._traffic.state()}


class SourceThread:
    """Asks one source again and again.

    Attributes:
        latest: what it said last, {} before that.
        at_us: when, in microseconds since boot.

    Args:
        say: told in one line when the source falls silent, and when it speaks again.
    """

    def __init__(self, name: str, asked: Asked, pause_s: float, say: Callable[[str], None]) -> None:
        self.name = name
        self.latest: dict[str, Any] = {}
        self.at_us = now_us()
        self._asked = asked
        self._pause_s = pause_s
        self._say = say
        self._problem = ""
        self._waits = threading.Event()

    def begin(self) -> None:
        """Start the thread; it ends with the process."""
        threading.Thread(target=self._go_on, name=self.name, daemon=True).start()

    def reading(self) -> dict[str, Any]:
        """Return the newest reading, {} while the source does not answer."""
        limit_us = _SILENT_US + int(3 * self._pause_s * SECOND_US)
        if now_us() - self.at_us > limit_us:
            self._note(f"it has not answered for {limit_us // SECOND_US} s")
            return {}
        return self.latest

    def _go_on(self) -> None:
        while True:
            pause_s = self._pause_s
            try:
                reading = self._asked.ask()
            except SourceError as error:
                self._note(str(error))
                self.latest, self.at_us = {}, now_us()
                pause_s = max(pause_s, _AGAIN_S)
            else:
                self.latest, self.at_us = reading, now_us()
                self._note("")
            self._waits.wait(pause_s)

    def _note(self, problem: str) -> None:
        """Say what is wrong, once, and when it is no longer."""
        if problem == self._problem:
            return
        self._problem = problem
        self._say(f"{self.name}: {problem or 'it answers again'}")
