"""What a host is and how busy it is: facts to register, load for heartbeats, /proc sampling."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") >> 10
_TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Hardware as `slurmd -C` prints it; memory and disk in MiB, times in microseconds."""

    hostname: str
    arch: str
    os: str
    cpus: int
    boards: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    real_memory_mib: int
    tmp_disk_mib: int
    boot_id: str
    boot_us: int


def host_facts(tmp_fs: str = "/tmp") -> HostFacts:
    """Return what this host is."""
    name = os.uname()
    cpus, sockets, cores, threads = _topology()
    return HostFacts(
        hostname=name.nodename.partition(".")[0],
        arch=name.machine,
        os=f"{name.sysname} {name.release} {name.version}",
        cpus=cpus,
        boards=1,
        sockets=sockets,
        cores_per_socket=cores,
        threads_per_core=threads,
        real_memory_mib=_meminfo("MemTotal") >> 10,
        tmp_disk_mib=tmp_disk_mib(tmp_fs),
        boot_id=_read("/proc/sys/kernel/random/boot_id").strip(),
        boot_us=_boot_us(),
    )


def tmp_disk_mib(path: str) -> int:
    """Return the size of the file system that holds `path`, 0 if it cannot be asked."""
    try:
        status = os.statvfs(path)
    except OSError:
        return 0
    return status.f_blocks * status.f_frsize >> 20


def _topology() -> tuple[int, int, int, int]:
    """Return CPUs, sockets, cores per socket and threads per core of the CPUs that are online."""
    base = "/sys/devices/system/cpu"
    packages: dict[str, set[str]] = {}
    cpus = 0
    for entry in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        if not entry.startswith("cpu") or not entry[3:].isdigit():
            continue
        package = _read(f"{base}/{entry}/topology/physical_package_id").strip()
        core = _read(f"{base}/{entry}/topology/core_id").strip()
        if package:
            cpus += 1
            packages.setdefault(package, set()).add(core)
    if not cpus:
        cpus = os.cpu_count() or 1
        return cpus, 1, cpus, 1
    cores = sum(len(found) for found in packages.values())
    sockets = len(packages)
    per_socket = max(1, cores // sockets)
    threads = max(1, cpus // max(1, cores))
    if sockets * per_socket * threads != cpus:
        return cpus, 1, cpus, 1
    return cpus, sockets, per_socket, threads


def load_hundredths() -> int:
    """Return the one-minute load average times 100."""
    return round(os.getloadavg()[0] * 100)


def free_mem_mib() -> int:
    """Return the memory that nothing uses; caches count as used, as in Slurm's FreeMem."""
    return _meminfo("MemFree") >> 10


def _meminfo(key: str) -> int:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    return 0


def _boot_us() -> int:
    for line in _read("/proc/stat").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) * 1_000_000
    return 0


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One process at one moment; KiB, microseconds, bytes."""

    pid: int
    parent: int
    session: int
    start_ticks: int
    user_us: int
    system_us: int
    rss_kib: int
    vmsize_kib: int
    pages: int
    read_bytes: int = 0
    written_bytes: int = 0


def sample(pid: int, *, with_io: bool = False) -> ProcessSample | None:
    """Return what /proc says of a process, or None if it is gone.

    CPU times include those of children it has waited for.
    """
    text = _read(f"/proc/{pid}/stat")
    # The command in parentheses may hold blanks and parentheses itself.
    words = text[text.rfind(")") + 2 :].split()
    if len(words) < 22:
        return None
    io = _io(pid) if with_io else (0, 0)
    return ProcessSample(
        pid=pid,
        parent=int(words[1]),
        session=int(words[3]),
        start_ticks=int(words[19]),
        user_us=(int(words[11]) + int(words[13])) * _TICK_US,
        system_us=(int(words[12]) + int(words[14])) * _TICK_US,
        rss_kib=int(words[21]) * _PAGE_KIB,
        vmsize_kib=int(words[20]) >> 10,
        pages=int(words[9]),
        read_bytes=io[0],
        written_bytes=io[1],
    )


def _io(pid: int) -> tuple[int, int]:
    found = {}
    for line in _read(f"/proc/{pid}/io").splitlines():
        name, _, value = line.partition(":")
        found[name] = int(value) if value.strip().isdigit() else 0
    return found.get("rchar", 0), found.get("wchar", 0)


def all_pids() -> list[int]:
    """Return every process of the host."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def family(roots: Iterable[int]) -> list[int]:
    """Return `roots` and all their living descendants, by one walk over /proc."""
    children: dict[int, list[int]] = {}
    for pid in all_pids():
        text = _read(f"/proc/{pid}/stat")
        words = text[text.rfind(")") + 2 :].split()
        if len(words) > 1:
            children.setdefault(int(words[1]), []).append(pid)
    found: dict[int, None] = {}
    queue = list(roots)
    while queue:
        pid = queue.pop()
        if pid not in found:
            found[pid] = None
            queue += children.get(pid, [])
    return list(found)


def _read(path: str) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(handle, 65536):
            parts.append(part)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)
