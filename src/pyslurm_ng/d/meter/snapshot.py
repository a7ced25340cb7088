"""What the meter of a node measured last: a file of root's that supervisors and slurmd read.

The file is replaced as a whole. Its readers never wait for a driver. Its map has

    boot        the kernel's id of the boot that its times and processes belong to
    time_us     when it was written, in microseconds since boot
    processes   a row for each process on a GPU: see the numbers below
    gpus        microjoules since some moment and milliwatts, by the number of the GPU's file
    lost        the numbers of GPUs that NVML says are lost, or have to be reset
    node        the same of the node without its GPUs; [] if not measured
    sensors     milliwatts by label of EnergyIPMIPowerSensors, beside `node`
    network     packets in, packets out, bytes in, bytes out since some moment
    filesystem  the same of reads and writes
    mean        the mean milliwatts of node and GPUs since the meter began
    state       what the sources need to go on counting after a restart of the meter

A part that its source has not renewed in time is missing or empty.
"""

import os

from pyslurm_ng.d.host.kernel_files import read_text
from pyslurm_ng.kernels.records import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE = "measured"
"""Its name in the spool directory."""
STALE_US = 120_000_000
"""After this time a file says nothing: the meter is gone or hangs."""
_MOST_BYTES = 4 << 20

# The numbers of a process's row. Utilisation is a percentage, summed over the process's GPUs.
PID, START, PERCENT, MOST_PERCENT, BUSY_MS, MEMORY_KIB, MOST_MEMORY_KIB = range(7)
"""BUSY_MS: the milliseconds for which one GPU would have been busy at 100 percent."""


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def now_us() -> int:
    """Return microseconds since boot, as the file's times are."""
    import time

    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def write(path: str, fields: "dict[str, Any]") -> None:
    """Replace the file; raises OSError."""
    draft = f"{path}.new"
    descriptor = os.open(
        draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        os.write(descriptor, pack(fields))
    finally:
        os.close(descriptor)
    os.replace(draft, path)


def read(path: str, *, any_age: bool = False) -> "dict[str, Any]":
    """Return the newest measurements of this boot; {} if there are none, or none that is new."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return {}
    try:
        fields = unpack(os.read(descriptor, _MOST_BYTES))
        if fields["boot"] != boot_id():
            return {}
        if not any_age and now_us() - fields["time_us"] > STALE_US:
            return {}
        return dict(fields)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    finally:
        os.close(descriptor)
