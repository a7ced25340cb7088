"""What a host is and how busy it is: facts to register, load for heartbeats."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.d.host.binding import host_cores
from pyslurm_ng.d.host.kernel_files import read_text


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
        real_memory_mib=host_memory_mib(),
        tmp_disk_mib=tmp_disk_mib(tmp_fs),
        boot_id=read_text("/proc/sys/kernel/random/boot_id").strip(),
        boot_us=_boot_us(),
    )


def host_memory_mib() -> int:
    """Return the memory of this host in MiB."""
    return _meminfo("MemTotal") >> 10


def hardware_words(host: HostFacts) -> str:
    """Return a host's CPUs as slurm.conf names them, as `slurmd -C` prints them."""
    return (
        f"CPUs={host.cpus} Boards={host.boards} SocketsPerBoard={host.sockets} "
        f"CoresPerSocket={host.cores_per_socket} ThreadsPerCore={host.threads_per_core}"
    )


def own_address(controllers: Iterable[str]) -> str:
    """Return the address that this host has towards a controller that can be reached, or ""."""
    for name in controllers:
        try:
            family, kind, _, _, address = socket.getaddrinfo(name, 9, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(address)  # of a datagram: nothing is sent
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return ""


def tmp_disk_mib(path: str) -> int:
    """Return the size of the file system that holds `path`, 0 if it cannot be asked."""
    try:
        status = os.statvfs(path)
    except OSError:
        return 0
    return status.f_blocks * status.f_frsize >> 20


def _topology() -> tuple[int, int, int, int]:
    """Return CPUs, sockets, cores per socket and threads per core of the CPUs that are online."""
    topology = host_cores()
    cores, per_socket = len(topology.cpus), topology.per_socket
    cpus = sum(map(len, topology.cpus))
    if cores % per_socket or cpus % cores:
        return cpus, 1, cpus, 1
    return cpus, cores // per_socket, per_socket, cpus // cores


def load_hundredths() -> int:
    """Return the one-minute load average times 100."""
    return round(os.getloadavg()[0] * 100)


def free_mem_mib() -> int:
    """Return the memory that nothing uses; caches count as used, as in Slurm's FreeMem."""
    return _meminfo("MemFree") >> 10


def _meminfo(key: str) -> int:
    for line in read_text("/proc/meminfo").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    return 0


def _boot_us() -> int:
    for line in read_text("/proc/stat").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) * SECOND_US
    return 0
