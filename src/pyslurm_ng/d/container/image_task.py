"""A task in an image: what Pyxis' options mean, and the image's life around the program."""

import os
import shutil
import sys
import tempfile

from pyslurm_ng.d.container.bundle import ContainerError, merged_variables
from pyslurm_ng.d.container.image import Image, save
from pyslurm_ng.d.container.own_directory import own_place
from pyslurm_ng.d.container.root import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_STARTUP = "/var/run/slurm"


class ImageTask:
    """Runs one task.

    Args:
        settings: as `d.spec.container_spec` makes them.
        spool: a directory for this task alone.
    """

    def __init__(self, settings: "Mapping[str, Any]", spool: str) -> None:
        self._settings = settings
        self._options: Mapping[str, str] = settings["options"]
        self._spool = spool
        self._place = ""

    def run(self, argv: "Sequence[str]") -> int:
        """Run a program to its end; return its wait status. Raises ContainerError."""
        image = self._image()
        mounts = self._mounts()
        if self._settings["is_batch"]:
            os.mkdir(f"{self._spool}/script")
            shutil.copyfile(argv[0], f"{self._spool}/script/startup")
            os.chmod(f"{self._spool}/script/startup", 0o700)
            mounts.append((f"{self._spool}/script", _STARTUP, ()))
            argv = [f"{_STARTUP}/startup", *argv[1:]]
        if "entrypoint" in self._options:
            argv = [*map(str, image.settings.get("Entrypoint") or ()), *argv]
        is_kept = bool(self._options.get("name") or self._options.get("save")) or (
            "writable" in self._options and not image.is_copy
        )
        root = Root(
            image.path, self._spool, mounts, is_root="remap-root" in self._options,
            is_readonly="readonly" in self._options, is_kept=is_kept,
        )  # fmt: skip
        env = image.settings.get("Env") or [f"PATH={_PATH}"]
        kept = self._options.get("env", "").split(",")
        variables = merged_variables(env, os.environ, kept)
        cwd = self._options.get("workdir") or image.settings.get("WorkingDir") or "/"
        status = _in_child(root, argv, variables, cwd)
        if self._options.get("save"):
            save(image.path, os.path.abspath(self._options["save"]))
        return status

    def _image(self) -> Image:
        """Return the image, unpacked if it is a tar file: once for the step, or for a name."""
        settings, name = self._settings, self._options.get("name", "")
        try:
            above = own_place(tempfile.gettempdir(), f"slurm-containers-{os.geteuid()}")
            store = f"{above}/{name or str(settings['job']) + '.' + str(settings['step'])}"
            os.makedirs(store, mode=0o700, exist_ok=True)
        except OSError as error:
            raise ContainerError(f"{error.filename}: {error.strerror}") from None
        self._place = "" if name else store
        source = self._options.get("image", "")
        if not source and not os.path.isdir(f"{store}/rootfs"):
            raise ContainerError(f"--container-name={name}: there is no such container here")
        needs_copy = bool(name or self._options.get("save"))
        return Image(source or f"{store}/rootfs", store, needs_copy=needs_copy)

    def _mounts(self) -> "list[tuple[str, str, Sequence[str]]]":
        mounts: list[tuple[str, str, Sequence[str]]] = []
        home = os.environ.get("HOME", "")
        if "mount-home" in self._options and home.startswith("/"):
            mounts.append((home, home, ()))
        for entry in filter(None, self._options.get("mounts", "").split(",")):
            source, _, rest = entry.partition(":")
            target, _, flags = rest.partition(":")
            mounts.append((source, target or source, flags.split("+")))
        return mounts

    def leave(self) -> None:
        """Remove what was unpacked for this step, if this is its only task here."""
        if self._place and self._settings["tasks"] == 1:
            shutil.rmtree(self._place, ignore_errors=True)


def _in_child(root: Root, argv: "Sequence[str]", variables: "Mapping[str, str]", cwd: str) -> int:
    """Run the program in a child; return its wait status."""
    child = os.fork()
    if child == 0:
        try:
            root.become(argv, variables, cwd)
        except (ContainerError, ValueError) as problem:
            sys.stderr.write(f"slurmstepd: error: container: {problem}\n")
            sys.stderr.flush()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return status
