"""Images: directories, tar and squashfs files, what `docker save` writes, names of registries.

What is no directory is unpacked once for a step on its node. All is done with the rights of the
task's user, so a hostile image can harm only the files of the user who chose it; paths that lead
out of the image are refused all the same.
"""

import fcntl
import json
import os
import shutil
import tarfile
import zlib

from pyslurm_ng.d.container.bundle import MOST_BYTES, ContainerError
from pyslurm_ng.d.container.image_programs import is_squashfs, make_squashfs, pull, unpack_squashfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BROKEN = (
    tarfile.TarError, AttributeError, EOFError, IndexError, KeyError, RecursionError, TypeError,
    ValueError, zlib.error,
)  # fmt: skip
_LISTS, _TEXTS = ("Cmd", "Entrypoint", "Env"), ("WorkingDir",)
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"


class Image:
    """A root file system: `path`, `settings` (as an image's Config), whether it is a copy of ours.

    Args:
        source: a directory, a file, or the name of an image of a registry.
        store: where what is no directory is unpacked, if it is not there yet.
        needs_copy: whether a directory is copied there, too.
    """

    def __init__(self, source: str, store: str, *, needs_copy: bool = False) -> None:
        """Raises ContainerError."""
        self.settings: dict[str, Any] = {}
        is_folder = os.path.isdir(source)
        self.is_copy = needs_copy or not is_folder
        self.path = source
        if not self.is_copy:
            return
        self.path = f"{store}/rootfs"
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(f"{store}/.lock", flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(f"{store}/unpacked"):
                shutil.rmtree(self.path, ignore_errors=True)
                if is_folder:
                    shutil.copytree(source, self.path, symlinks=True)
                else:
                    self._unpack(source if os.path.isfile(source) else pull(source, store))
                with open(f"{store}/unpacked", "w") as file:
                    json.dump(self.settings, file)
            with open(f"{store}/unpacked") as file:
                self.settings = _checked(json.load(file))
        except (*_BROKEN, OSError) as error:
            raise ContainerError(f"--container-image={source}: {error}") from None
        finally:
            os.close(lock)

    def _unpack(self, source: str) -> None:
        if os.path.isdir(source):
            os.rename(source, self.path)
            return
        if is_squashfs(source):
            unpack_squashfs(source, self.path)
            return
        if not tarfile.is_tarfile(source):
            raise ValueError("neither a tar file nor a squashfs file")
        os.mkdir(self.path)
        with tarfile.open(source) as archive:
            names = {member.name for member in archive if member.isfile()}
            if "manifest.json" in names:
                self._unpack_layers(archive)
            else:
                _extract(archive, self.path)

    def _unpack_layers(self, archive: tarfile.TarFile) -> None:
        """Unpack what `docker save` and `podman save` write."""
        manifest = _json_of(archive, "manifest.json")[0]
        settings = _json_of(archive, manifest["Config"]).get("config") or {}
        self.settings = _checked({name: settings.get(name) for name in (*_LISTS, *_TEXTS)})
        for layer in manifest["Layers"]:
            member = archive.extractfile(layer)
            if member is None:
                raise ValueError(f"{layer} is no file")
            with tarfile.open(fileobj=member) as inner:
                _extract(inner, self.path)


def _checked(settings: "dict[str, Any]") -> "dict[str, Any]":
    """Return an image's settings if each is of its kind. Raises ValueError."""
    for name in _LISTS:
        words = settings.get(name) or []
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"{name} of the image is no list of texts")
    for name in _TEXTS:
        if not isinstance(settings.get(name) or "", str):
            raise ValueError(f"{name} of the image is no text")
    return settings


def _json_of(archive: tarfile.TarFile, name: str) -> "Any":
    member = archive.extractfile(name)
    if member is None:
        raise ValueError(f"{name} is no file")
    return json.loads(member.read(MOST_BYTES))


def _extract(archive: tarfile.TarFile, path: str) -> None:
    """Unpack one archive over what is there; devices are left out, and owners are the user."""
    root = os.path.realpath(path)
    for member in archive:
        member.name = os.path.normpath(member.name.lstrip("/"))
        name = os.path.basename(member.name)
        _inside(root, os.path.dirname(member.name))
        if name.startswith(_WHITEOUT):
            _white_out(root, os.path.dirname(member.name), name)
            continue
        if member.isdev() or member.name == ".":
            continue
        if member.islnk():
            member.linkname = os.path.normpath(member.linkname.lstrip("/"))
            _inside(root, member.linkname)
        if member.isdir():
            member.mode |= 0o700
        member.uname = member.gname = ""
        member.uid, member.gid = os.geteuid(), os.getegid()
        target = os.path.join(root, member.name)
        if os.path.lexists(target) and not (member.isdir() and _is_folder(target)):
            shutil.rmtree(target) if _is_folder(target) else os.unlink(target)
        archive.extract(member, root)


def _inside(root: str, path: str) -> str:
    """Return where a path in the image is, links followed. Raises ValueError: outside of it."""
    where = os.path.realpath(os.path.join(root, path))
    if where != root and not where.startswith(f"{root}/"):
        raise ValueError(f"{path} leads out of the image")
    return where


def _white_out(root: str, folder: str, name: str) -> None:
    """Remove what a layer says is no longer there."""
    inside = _inside(root, folder)
    gone = os.listdir(inside) if name == _OPAQUE and os.path.isdir(inside) else []
    for entry in gone or ([name.removeprefix(_WHITEOUT)] if name != _OPAQUE else []):
        target = os.path.join(inside, entry)
        if _is_folder(target):
            shutil.rmtree(target)
        elif os.path.lexists(target):
            os.unlink(target)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def save(root: str, target: str) -> None:
    """Write a root file system into a tar or squashfs file. Raises ContainerError."""
    partial = f"{target}.{os.getpid()}"
    try:
        if target.endswith((".sqsh", ".sqfs", ".squashfs")):
            make_squashfs(root, partial)
            os.rename(partial, target)
            return
        with tarfile.open(partial, "x:gz" if target.endswith((".gz", ".tgz")) else "x") as archive:
            for name in sorted(os.listdir(root)):
                archive.add(os.path.join(root, name), arcname=name)
        os.rename(partial, target)
    except (OSError, tarfile.TarError) as error:
        raise ContainerError(f"--container-save={target}: {error}") from None
