"""The frequency of a step's CPUs, by the kernel's cpufreq; after the step it is as before."""

import os

from pyslurm_ng.d.host.kernel_files import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import FrequencySpec

CPUS = "/sys/devices/system/cpu"
_GOVERNOR, _SPEED = "scaling_governor", "scaling_setspeed"
_LEAST, _MOST = "scaling_min_freq", "scaling_max_freq"


class StepFrequency:
    """Sets what was asked for on each CPU, as far as its driver can.

    Args:
        request: None if the CPUs keep their frequency.
        root: the kernel's folder of CPUs.
    """

    def __init__(self, request: "FrequencySpec | None", root: str = CPUS) -> None:
        self._request = request
        self._root = root
        self._before: dict[str, dict[str, str]] = {}  # by folder of a CPU

    def set(self) -> str:
        """Set the frequency; return what to tell the user, or ""."""
        request = self._request
        if request is None:
            return ""
        for cpu in request["cpus"]:
            self._set_one(f"{self._root}/cpu{cpu}/cpufreq", request)
        if self._before or not request["is_asked"]:
            return ""
        return "CPU frequency setting not configured for this node"

    def restore(self) -> None:
        """Have each CPU as it was before."""
        for folder, before in self._before.items():
            steps = _steps(folder)
            # In this order the lower bound is never above the upper one.
            for name, value in ((_LEAST, str(steps[0])), *before.items()):
                _write(f"{folder}/{name}", value)
        self._before = {}

    def _set_one(self, folder: str, request: "FrequencySpec") -> None:
        steps = _steps(folder)
        if not steps:
            return
        before = {name: read_text(f"{folder}/{name}").strip() for name in (_MOST, _LEAST)}
        before[_GOVERNOR] = read_text(f"{folder}/{_GOVERNOR}").strip()
        if before[_GOVERNOR] == "userspace":
            before[_SPEED] = read_text(f"{folder}/{_SPEED}").strip()
        self._before[folder] = before
        low, high, governor = request["low"], request["high"], request["governor"]
        if low and not high and _has_governor(folder, "userspace"):
            _write(f"{folder}/{_GOVERNOR}", "userspace")
            _write(f"{folder}/{_SPEED}", str(_khz(low, steps)))
            return
        if low:
            _write(f"{folder}/{_LEAST}", str(steps[0]))
            _write(f"{folder}/{_MOST}", str(_khz(high or low, steps)))
            _write(f"{folder}/{_LEAST}", str(_khz(low, steps)))
        if governor and _has_governor(folder, governor):
            _write(f"{folder}/{_GOVERNOR}", governor)


def _steps(folder: str) -> "list[int]":
    """Return the frequencies of a CPU in kHz, upwards; or only the least and the greatest."""
    texts = read_text(f"{folder}/scaling_available_frequencies").split() or [
        *read_text(f"{folder}/cpuinfo_min_freq").split(),
        *read_text(f"{folder}/cpuinfo_max_freq").split(),
    ]
    return sorted({int(text) for text in texts if text.isdecimal()})


def _khz(word: str, steps: "list[int]") -> int:
    """Return what a word of --cpu-freq means on a CPU; a number means the nearest step."""
    if word.isdecimal():
        khz = int(word)
        if len(steps) == 2:  # a driver that takes all between the two
            return min(max(khz, steps[0]), steps[1])
        return min(steps, key=lambda step: (abs(step - khz), step))
    position = {"low": 0, "medium": (len(steps) - 1) // 2, "highm1": max(0, len(steps) - 2)}
    return steps[position.get(word, len(steps) - 1)]


def _has_governor(folder: str, governor: str) -> bool:
    return governor in read_text(f"{folder}/scaling_available_governors").split()


def _write(path: str, value: str) -> None:
    """Write one value; what a driver refuses stays as it is."""
    if not value:
        return
    try:
        handle = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(handle, value.encode())
    except OSError:
        return
    finally:
        os.close(handle)
