"""Keeping devices from a version 2 control group: a small BPF program, loaded by hand.

The program is a chain of comparisons: type, major and minor number of the device being opened
against each denied one; the first match refuses. Whatever is not named is allowed.

Source of layouts: linux/bpf.h, `struct bpf_cgroup_dev_ctx`, `union bpf_attr`.
"""

import ctypes
import os
import struct
from collections.abc import Iterable

from pyslurm_ng.d.cgroup import CgroupError

_SYS_BPF = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "riscv64": 280}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_TYPE_CGROUP_DEVICE, _ATTACH_DEVICE = 15, 6
_ALLOW_MULTI = 2
_BLOCK, _CHARACTER = 1, 2


def _instruction(code: int, target: int, source: int, offset: int, value: int) -> bytes:
    return struct.pack("<BBhi", code, target | source << 4, offset, value)


def program(devices: Iterable[tuple[str, int, int]]) -> bytes:
    """Return instructions that refuse `devices` (`c` or `b`, major, minor; -1 for any minor)."""
    load, jump_unequal, move, leave, mask = 0x61, 0x55, 0xB7, 0x95, 0x57
    code = _instruction(load, 2, 1, 0, 0)  # r2 = access_type
    code += _instruction(mask, 2, 0, 0, 0xFFFF)  # the low half is the device's type
    code += _instruction(load, 3, 1, 4, 0)  # r3 = major
    code += _instruction(load, 4, 1, 8, 0)  # r4 = minor
    for kind, major, minor in devices:
        tests = [(2, _CHARACTER if kind == "c" else _BLOCK), (3, major)]
        if minor >= 0:
            tests.append((4, minor))
        for index, (register, value) in enumerate(tests):
            # Past the remaining tests and the two instructions that refuse.
            past = len(tests) - index - 1 + 2
            code += _instruction(jump_unequal, register, 0, past, value)
        code += _instruction(move, 0, 0, 0, 0) + _instruction(leave, 0, 0, 0, 0)
    return code + _instruction(move, 0, 0, 0, 1) + _instruction(leave, 0, 0, 0, 0)


def parse_device(text: str) -> tuple[str, int, int]:
    """Return kind, major and minor of `c 195:1 rwm`."""
    kind, numbers = text.split()[:2]
    major, _, minor = numbers.partition(":")
    return kind, int(major), -1 if minor == "*" else int(minor)


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYS_BPF.get(os.uname().machine)
    if number is None:
        raise CgroupError(f"ConstrainDevices: not supported on {os.uname().machine} yet")
    libc = ctypes.CDLL(None, use_errno=True)
    room = ctypes.create_string_buffer(attributes, len(attributes))
    result = int(libc.syscall(number, command, room, len(attributes)))
    if result < 0:
        code = ctypes.get_errno()
        raise CgroupError(f"ConstrainDevices: bpf: {os.strerror(code)}")
    return result


def deny_devices(group: str, deny: Iterable[str]) -> None:
    """Attach a filter to a control group's directory; it stays as long as the group.

    Raises:
        CgroupError: the kernel does not allow it.
    """
    instructions = program(map(parse_device, deny))
    code = ctypes.create_string_buffer(instructions, len(instructions))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    load = struct.pack(
        "<IIQQIIQII16s",
        _TYPE_CGROUP_DEVICE,
        len(instructions) // 8,
        ctypes.addressof(code),
        ctypes.addressof(licence),
        0,
        0,
        0,
        0,
        0,
        b"devices",
    )
    filter_fd = _bpf(_PROG_LOAD, load)
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _bpf(_PROG_ATTACH, struct.pack("<IIII", folder, filter_fd, _ATTACH_DEVICE, _ALLOW_MULTI))
    finally:
        os.close(folder)
        os.close(filter_fd)
