"""Control groups of version 2 with all controllers, in an emulated machine.

Where tests run, version 1 often has the controllers. A Debian kernel in an emulator has version 2
alone; its memory holds this interpreter, the package, and `emulated_cgroups` with the checks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ("qemu-system-x86_64", "busybox", "cpio", "dpkg-deb", "apt-get")
LIMIT_S = 900
_MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
# Modules of the kernel for the disk that is swapped to, in this order.
_MODULES = "virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk"
_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mount -t cgroup2 none /sys/fs/cgroup
for module in {modules}; do insmod /modules/$module.ko; done
mkswap /dev/vda >/dev/null; swapon /dev/vda
export PATH=/bin:/usr/bin PYTHONPATH={path} PYTHONDONTWRITEBYTECODE=1
cd /
{python} -m tests.d.host.emulated_cgroups
echo o > /proc/sysrq-trigger; sleep 60
"""

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {' '.join(_MISSING)}"),
]


def _kernel(directory: Path) -> Path:
    """Fetch and unpack Debian's kernel for clouds; skip where that is impossible."""
    words = ["apt-cache", "depends", "linux-image-cloud-amd64"]
    shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    match = re.search(r"Depends: (linux-image-\S+)", shown)
    if match is None:
        pytest.skip("apt knows no linux-image-cloud-amd64")
    fetched = subprocess.run(["apt-get", "download", match[1]], cwd=directory, capture_output=True)
    packages = list(directory.glob("*.deb"))
    if fetched.returncode or not packages:
        pytest.skip(f"{match[1]} cannot be fetched")
    subprocess.run(["dpkg-deb", "-x", packages[0], directory / "kernel"], check=True)
    return directory / "kernel"


def _copy(source: Path, top: Path) -> None:
    """Copy a file or directory to the same place below another root."""
    target = top / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignored = shutil.ignore_patterns("*.c", "*.pyx", "test", "idlelib", "ensurepip", "golden")
        shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
    elif not target.exists():
        shutil.copy2(source, target)


def _libraries(*programs: Path) -> set[Path]:
    """Return the shared libraries that programs and modules need."""
    words = ["ldd", *map(str, programs)]
    shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(/\S+\.so[.\d]*)", shown)}


def _fill(top: Path, kernel: Path) -> None:
    """Put into place what the machine's memory is to hold."""
    import msgspec

    python = Path(sys.executable).resolve()
    standard = Path(os.__file__).resolve().parent
    for name in ("bin", "proc", "sys", "dev", "tmp", "etc", "modules"):
        (top / name).mkdir(parents=True)
    (top / "tmp").chmod(0o1777)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy2(busybox, top / "bin" / "busybox")
    package = ROOT / "src" / "pyslurm_ng"
    for source in (python, standard, package, ROOT / "tests" / "d", ROOT / "tests" / "world"):
        _copy(source, top)
    _copy(Path(msgspec.__file__).parent, top)
    modules = [*standard.rglob("*.so"), *package.rglob("*.so")]
    for library in _libraries(python, *modules):
        _copy(library, top)
    (top / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\nuser:x:1001:1001::/:/bin/sh\n")
    for name in _MODULES.split():
        shutil.copy2(next(kernel.rglob(f"{name}.ko")), top / "modules")
    path = f"{ROOT / 'src'}:{ROOT}:{Path(msgspec.__file__).parents[1]}"
    init = top / "init"
    init.write_text(_INIT.format(modules=_MODULES, path=path, python=python))
    init.chmod(0o755)


def test_steps_in_groups_of_version_2(tmp_path: Path) -> None:
    """Memory, swap, CPUs, devices, numbers of processes, escapes, suspension, logins, usage."""
    kernel = _kernel(tmp_path)
    top = tmp_path / "top"
    _fill(top, kernel)
    with open(tmp_path / "memory", "wb") as memory:
        words = "find . | cpio -o -H newc --quiet"
        subprocess.run(["sh", "-c", words], cwd=top, stdout=memory, check=True)
    with open(tmp_path / "swap", "wb") as swap:
        swap.truncate(256 << 20)
    machine = [
        "nice", "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "1536",
        "-smp", "2", "-nographic", "-nodefaults", "-serial", "stdio", "-no-reboot",
        "-kernel", str(next(kernel.rglob("vmlinuz-*"))), "-initrd", str(tmp_path / "memory"),
        "-drive", f"file={tmp_path / 'swap'},if=virtio,format=raw",
        "-append", "console=ttyS0 quiet panic=1 cgroup_no_v1=all",
    ]  # fmt: skip
    ran = subprocess.run(
        machine, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        timeout=LIMIT_S, check=False,
    )  # fmt: skip
    for part in (top, kernel):
        shutil.rmtree(part)
    (tmp_path / "memory").unlink()
    print(ran.stdout)
    assert "all checks were run" in ran.stdout, ran.stdout + ran.stderr
    assert "FAILED" not in ran.stdout, ran.stdout
