"""What a node draws: by the kernel's counters of RAPL or Cray, or by its BMC through a command."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pyslurm_ng.d.host.kernel_files import read_text
from pyslurm_ng.d.meter.gpu_usage import added_uj

RAPL_ROOT = "/sys/class/powercap"
CRAY_ROOT = "/sys/cray/pm_counters"
MOST_MILLIWATTS = 1_000_000_000
"""No node draws a megawatt: a sensor that says so is wrong."""
_OUTPUT_BYTES = 65536
_DCMI_LINE = re.compile(
    r"^(?:Current Power|\s*Instantaneous power reading)\s*:\s*(\d+)\s*Watts", re.M
)
_DCMI_COMMANDS = (
    ("ipmi-dcmi", "--get-system-power-statistics"),
    ("ipmitool", "dcmi", "power", "reading"),
)
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class PowerError(Exception):
    """The source says nothing; one line for the log."""


class Power(Protocol):
    """A source of the node's energy."""

    def sample(self, now_us: int) -> None:
        """Read it; raises PowerError."""

    def reading(self) -> tuple[int, int]:
        """Return microjoules since some moment, and milliwatts now."""

    def state(self) -> Any:
        """Return what another meter needs to go on after this one."""


NODE_LABEL = "Node"
"""The label of EnergyIPMIPowerSensors whose sensors are the node's power."""


class RaplPower:
    """The packages' and their memory's counters, which begin again at their range.

    Args:
        before: the state of an earlier meter of this boot.
    """

    def __init__(self, before: Any = None, root: str = RAPL_ROOT) -> None:
        self._root = root
        self._total_uj, self._milliwatts = 0, 0
        self._sampled_us = 0
        self._counters: dict[str, int] = {}
        if before:
            self._total_uj, self._sampled_us, self._counters = before[0], before[1], dict(before[2])

    def sample(self, now_us: int) -> None:
        zones = self._zones()
        if not zones:
            raise PowerError(f"{self._root}: there is no counter of RAPL")
        added = 0
        for zone in zones:
            counter = _number(f"{self._root}/{zone}/energy_uj")
            before = self._counters.get(zone, counter)
            self._counters[zone] = counter
            if counter < before:
                counter += _number(f"{self._root}/{zone}/max_energy_range_uj")
            added += max(0, counter - before)
        span_us = now_us - self._sampled_us
        if self._sampled_us and span_us > 0:
            self._milliwatts = min(added * 1000 // span_us, MOST_MILLIWATTS)
        self._sampled_us = now_us
        self._total_uj += added

    def reading(self) -> tuple[int, int]:
        return self._total_uj, self._milliwatts

    def state(self) -> Any:
        return [self._total_uj, self._sampled_us, self._counters]

    def _zones(self) -> list[str]:
        """Return the zones that do not count each other: packages, and memory beside them."""
        try:
            names = sorted(os.listdir(self._root))
        except OSError:
            return []
        return [
            zone
            for zone in names
            if read_text(f"{self._root}/{zone}/name").startswith(("package", "dram"))
            and zone.startswith("intel-rapl:")
        ]


class CrayPower:
    """The counters of a Cray's node: joules, and watts beside them."""

    def __init__(self, before: Any = None, root: str = CRAY_ROOT) -> None:
        self._root = root
        self._joules = self._watts = 0

    def sample(self, now_us: int) -> None:
        energy = read_text(f"{self._root}/energy").split()
        power = read_text(f"{self._root}/power").split()
        if not energy or not energy[0].isdecimal():
            raise PowerError(f"{self._root}/energy: there is no such counter")
        self._joules = int(energy[0])
        self._watts = int(power[0]) if power and power[0].isdecimal() else 0

    def reading(self) -> tuple[int, int]:
        return self._joules * 1_000_000, min(self._watts * 1000, MOST_MILLIWATTS)

    def state(self) -> Any:
        return None


class IpmiPower:
    """The power that the BMC tells through FreeIPMI's or ipmitool's command, added up.

    Args:
        sensors: labels with the numbers of the records whose watts are added; Node is what the
            node draws, and without numbers for it the BMC's DCMI is asked.
        limit_s: how long the command may take.
        run: runs a command and returns what it prints; raises PowerError.
    """

    def __init__(
        self,
        before: Any = None,
        *,
        sensors: Sequence[tuple[str, Sequence[int]]] = (),
        limit_s: float = 10.0,
        run: Callable[[Sequence[str], float], str] | None = None,
    ) -> None:
        self._sensors = {label: tuple(ids) for label, ids in sensors if ids}
        self._by_label: dict[str, int] = {}
        self._limit_s = limit_s
        self._run = run or run_command
        state: Sequence[int] = before or (0, 0, 0)
        self._total_uj, self._milliwatts, self._sampled_us = state

    def sample(self, now_us: int) -> None:
        milliwatts = min(self._ask(), MOST_MILLIWATTS)
        if self._sampled_us:
            self._total_uj += added_uj(self._milliwatts, milliwatts, now_us - self._sampled_us)
        self._milliwatts, self._sampled_us = milliwatts, now_us

    def reading(self) -> tuple[int, int]:
        return self._total_uj, self._milliwatts

    def state(self) -> Any:
        return [self._total_uj, self._milliwatts, self._sampled_us]

    def sensors(self) -> dict[str, int]:
        """Return the milliwatts of each label at the last look."""
        return self._by_label

    def _ask(self) -> int:
        """Return the node's milliwatts; raises PowerError."""
        if self._sensors:
            ids = sorted({number for numbers in self._sensors.values() for number in numbers})
            words = (
                "ipmi-sensors", f"--record-ids={','.join(map(str, ids))}",
                "--comma-separated-output", "--no-header-output",
            )  # fmt: skip
            milliwatts = sensor_milliwatts(self._run(words, self._limit_s))
            self._by_label = {
                label: sum(milliwatts.get(number, 0) for number in numbers)
                for label, numbers in self._sensors.items()
            }
        if NODE_LABEL in self._by_label:
            return self._by_label[NODE_LABEL]
        problem = PowerError("")
        for command in _DCMI_COMMANDS:
            try:
                match = _DCMI_LINE.search(self._run(command, self._limit_s))
            except PowerError as error:
                problem = error
                continue
            if match is None or len(match[1]) > 9:
                raise PowerError(f"{command[0]}: it tells no power")
            return int(match[1]) * 1000
        raise problem


def sensor_milliwatts(text: str) -> dict[int, int]:
    """Return what lines of ipmi-sensors say, by record: `16,Pwr Consumption,Current,176.00,W,'OK'`.

    Raises:
        PowerError: no line tells watts.
    """
    milliwatts = {
        int(fields[0]): round(float(fields[3]) * 1000)
        for fields in (line.split(",") for line in text.splitlines())
        if len(fields) > 4
        and fields[4] == "W"
        and fields[0].strip().isdecimal()
        and re.fullmatch(r"\d{1,9}(\.\d*)?", fields[3])
    }
    if not milliwatts:
        raise PowerError("ipmi-sensors: no sensor of EnergyIPMIPowerSensors tells watts")
    return milliwatts


def run_command(words: Sequence[str], limit_s: float) -> str:
    """Return what a program of the system prints; raises PowerError."""
    environment: Mapping[str, str] = {"PATH": os.environ.get("PATH") or _PATH, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            words, capture_output=True, stdin=subprocess.DEVNULL, timeout=limit_s, check=False,
            env=environment,
        )  # fmt: skip
    except FileNotFoundError:
        raise PowerError(f"{words[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise PowerError(f"{words[0]} did not answer within {limit_s:.0f} s") from None
    except OSError as error:
        raise PowerError(f"{words[0]}: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr[:_OUTPUT_BYTES].decode("utf-8", "replace").strip().splitlines() or [""]
        raise PowerError(f"{words[0]} ended with {done.returncode}: {lines[-1][:200]}")
    return done.stdout[:_OUTPUT_BYTES].decode("utf-8", "replace")


def _number(path: str) -> int:
    text = read_text(path).strip()
    return int(text) if text.isdecimal() and len(text) < 20 else 0
