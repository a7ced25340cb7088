"""A program with an image as its root: namespaces of users and mounts, and no runtime.

As with Pyxis the container has the host's processes, network and devices, so MPI, GPUs and signals
work as without one, and its processes stay in the step's control groups. A user needs no rights for
it: in a user namespace one may mount what one may read. Where the image is not to be changed,
writes go to an overlay that is removed.
"""

import os

from pyslurm_ng.d.container.bundle import ContainerError
from pyslurm_ng.kernels.process import mount, unshare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_MOVE, _MS_REC, _MS_PRIVATE = (
    1,
    32,
    4096,
    8192,
    16384,
    1 << 18,
)
_NAMED = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8}
_KEPT_FLAGS = 1 | 2 | 4 | 8 | 1024 | 2048
"""What statvfs says in the same bits as mount: ro, nosuid, nodev, noexec, noatime, nodiratime."""
_HOST_DIRECTORIES = ("/proc", "/sys", "/dev", "/tmp")
_HOST_FILES = ("/etc/hosts", "/etc/resolv.conf", "/etc/passwd", "/etc/group")


class Root:
    """What a program is to see.

    Args:
        path: of the image's root file system.
        spool: an empty directory of ours.
        mounts: (path on the node, path inside, words), as --container-mounts has them.
        is_root: whether the program is root inside.
    """

    def __init__(
        self, path: str, spool: str, mounts: "Sequence[tuple[str, str, Sequence[str]]]", *,
        is_root: bool, is_readonly: bool, is_kept: bool,
    ) -> None:  # fmt: skip
        self._path = os.path.realpath(path)
        self._spool = spool
        self._mounts: list[tuple[str, str, Sequence[str]]] = [
            (host, host, ()) for host in _HOST_DIRECTORIES
        ]
        self._mounts += [
            (host, host, ("ro",)) for host in _HOST_FILES
            if os.path.isfile(host) and os.path.isfile(self._path + host)
        ]  # fmt: skip
        self._mounts += mounts
        self._is_root = is_root
        self._is_readonly = is_readonly
        self._is_kept = is_kept
        for name in ("upper", "work", "root"):
            os.mkdir(f"{spool}/{name}")

    def become(self, argv: "Sequence[str]", variables: "Mapping[str, str]", cwd: str) -> None:
        """Become the program inside; only failures return.

        Raises:
            ContainerError: one line.
        """
        try:
            self._enter()
        except OSError as error:
            where = os.fsdecode(error.filename or b"")
            raise ContainerError(f"{where or 'namespaces'}: {error.strerror}") from None
        try:
            os.chdir(cwd)
        except OSError as error:
            raise ContainerError(f"{cwd}: {error.strerror}") from None
        try:
            os.execvpe(argv[0], list(argv), dict(variables))
        except OSError as error:
            raise ContainerError(f"{argv[0]}: {error.strerror}") from None

    def _enter(self) -> None:
        uid, gid = os.geteuid(), os.getegid()
        unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if uid else 0))
        if uid:
            inside = (0, 0) if self._is_root else (uid, gid)
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{inside[0]} {uid} 1")
            _write("/proc/self/gid_map", f"{inside[1]} {gid} 1")
        mount(b"none", b"/", b"", _MS_REC | _MS_PRIVATE)
        root = self._mount_root()
        for host, inside_path, words in self._mounts:
            _bind(host, root, inside_path, words)
        if self._is_readonly:
            _remount(root, _MS_RDONLY)
        os.chdir(root)
        mount(b".", b"/", b"", _MS_MOVE)
        os.chroot(".")
        os.chdir("/")

    def _mount_root(self) -> str:
        """Mount the image, below a layer for what is written unless that is to be kept."""
        root = f"{self._spool}/root"
        if self._is_kept:
            mount(os.fsencode(self._path), os.fsencode(root), b"", _MS_BIND | _MS_REC)
            return root
        layers = f"lowerdir={_quoted(self._path)},upperdir={self._spool}/upper,"
        layers += f"workdir={self._spool}/work"
        layers += ",userxattr" if os.geteuid() else ""
        mount(b"overlay", os.fsencode(root), b"overlay", 0, os.fsencode(layers))
        return root


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


def _bind(host: str, root: str, inside: str, words: "Sequence[str]") -> None:
    """Mount something of the node; where it goes is made if it is not there. Raises OSError."""
    target = os.path.realpath(root + inside)
    if target != root and not target.startswith(f"{root}/"):
        raise OSError(22, "leads out of the image", inside)
    os.stat(host)  # what is not there gets no place inside, and is named
    if os.path.isdir(host):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    mount(os.fsencode(host), os.fsencode(target), b"", _MS_BIND | _MS_REC)
    flags = 0
    for word in words:
        flags |= _NAMED.get(word, 0)
    if flags:
        _remount(target, flags)


def _remount(target: str, flags: int) -> None:
    """Add flags to a mount: those that the node's own mount has cannot be taken away."""
    kept = os.statvfs(target).f_flag & _KEPT_FLAGS
    mount(b"none", os.fsencode(target), b"", _MS_REMOUNT | _MS_BIND | flags | kept)
