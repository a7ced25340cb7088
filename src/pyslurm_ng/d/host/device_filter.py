"""Keep processes of a v2 control group from device nodes, by a small BPF program.

Source: the kernel's cgroup-v2 documentation (device controller) and its BPF instruction set.
"""

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    DeviceNode: TypeAlias = tuple[str, int, int]
    """A device file by its numbers: `c` or `b`, major, minor."""

_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_PROG_TYPE_CGROUP_DEVICE, _ATTACH_DEVICE = 15, 6
_ALLOW_MULTI = 2
_BLOCK, _CHARACTER = 1, 2

# struct bpf_cgroup_dev_ctx: access and type, major, minor; 32 bits each.
_LOAD, _AND, _JUMP_UNLESS_EQUAL, _MOVE, _EXIT = 0x61, 0x57, 0x55, 0xB7, 0x95


def device_node(path: str) -> "DeviceNode | None":
    """Return the numbers of a device file, or None for anything else."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    mode = status.st_mode & 0o170000
    if mode not in (0o020000, 0o060000):
        return None
    kind = "c" if mode == 0o020000 else "b"
    return kind, os.major(status.st_rdev), os.minor(status.st_rdev)


def _instruction(code: int, target: int, source: int, offset: int, value: int) -> bytes:
    return struct.pack("<BBhi", code, target | source << 4, offset, value)


def program(denied: "Sequence[DeviceNode]") -> bytes:
    """Return the instructions that refuse `denied` and allow all else."""
    code = [
        _instruction(_LOAD, 2, 1, 0, 0),
        _instruction(_AND, 2, 0, 0, 0xFFFF),
        _instruction(_LOAD, 3, 1, 4, 0),
        _instruction(_LOAD, 4, 1, 8, 0),
    ]
    for letter, major, minor in denied:
        kind = _CHARACTER if letter == "c" else _BLOCK
        code += [
            _instruction(_JUMP_UNLESS_EQUAL, 2, 0, 4, kind),
            _instruction(_JUMP_UNLESS_EQUAL, 3, 0, 3, major),
            _instruction(_JUMP_UNLESS_EQUAL, 4, 0, 2, minor),
            _instruction(_MOVE, 0, 0, 0, 0),
            _instruction(_EXIT, 0, 0, 0, 0),
        ]
    code += [_instruction(_MOVE, 0, 0, 0, 1), _instruction(_EXIT, 0, 0, 0, 0)]
    return b"".join(code)


def deny(group: str, denied: "Sequence[DeviceNode]") -> None:
    """Refuse devices to all processes of a v2 group's directory, for as long as it exists.

    Raises:
        OSError: the kernel refuses, or this processor's system call number is not known.
    """
    import ctypes

    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"no bpf system call known for {os.uname().machine}")
    code = program(denied)
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    load = struct.pack(
        "<IIQQIIQII",
        _PROG_TYPE_CGROUP_DEVICE,
        len(code) // 8,
        ctypes.addressof(instructions),
        ctypes.addressof(licence),
        0,
        0,
        0,
        0,
        0,
    )
    loaded = _bpf(number, _PROG_LOAD, load)
    try:
        directory = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            attach = struct.pack("<IIII", directory, loaded, _ATTACH_DEVICE, _ALLOW_MULTI)
            _bpf(number, _PROG_ATTACH, attach)
        finally:
            os.close(directory)
    finally:
        os.close(loaded)


def _bpf(number: int, command: int, attributes: bytes) -> int:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = int(libc.syscall(number, command, buffer, len(attributes)))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
