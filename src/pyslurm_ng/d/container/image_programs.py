"""Images of registries, and squashfs files: by other programs, whichever of them the node has.

Pulling needs credentials, mirrors and a network, which belong to these programs and their files of
the user and the site. They run as the task's user and leave something to unpack in the user's own
directory.
"""

import os
import shutil
import subprocess
import tempfile

from pyslurm_ng.d.container.bundle import ContainerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SQUASHFS_MAGIC = b"hsqs"
_SHOWN_CHARACTERS = 300


def pull(source: str, store: str) -> str:
    """Fetch an image of a registry; return the file or directory that it is now.

    Args:
        source: as Pyxis has it, `[docker://][REGISTRY#]IMAGE[:TAG]`.
        store: a directory of the user's.

    Raises:
        ContainerError: the name is none, no program can pull, or it fails.
    """
    name = source.removeprefix("docker://").replace("#", "/", 1)
    if not name or "://" in name or name.startswith(("/", ".", "-")):
        raise ContainerError(f"--container-image={source}: no such file or directory")
    for program, fetch in _PROGRAMS.items():
        if shutil.which(program):
            return fetch(source, name, store)
    needs = f"to pull images this node needs one of {', '.join(_PROGRAMS)}"
    raise ContainerError(f"--container-image={source}: no such file or directory; {needs}")


def _by_enroot(source: str, name: str, store: str) -> str:
    path = f"{store}/pulled.sqsh"
    # enroot itself separates the registry by a #.
    _run(source, ["enroot", "import", "-o", path, f"docker://{source.removeprefix('docker://')}"])
    return path


def _by_podman(source: str, name: str, store: str) -> str:
    """podman needs a storage, which is this task's alone; its path may have 50 characters."""
    own = tempfile.mkdtemp(prefix="podman-")
    words = ["podman", "--root", f"{own}/graph", "--runroot", f"{own}/run"]
    words += ["--storage-driver", "vfs", "--storage-opt", "vfs.ignore_chown_errors=true"]
    env = {**os.environ, "XDG_RUNTIME_DIR": own}
    logged_in = f"{os.environ.get('XDG_RUNTIME_DIR', '')}/containers/auth.json"
    if os.path.exists(logged_in):
        env.setdefault("REGISTRY_AUTH_FILE", logged_in)
    path = f"{store}/pulled.tar"
    try:
        _run(source, [*words, "pull", "-q", f"docker://{name}"], env)
        _run(source, [*words, "save", "-q", "-o", path, name], env)
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return path


def _by_apptainer(source: str, name: str, store: str) -> str:
    path = f"{store}/pulled"
    _run(source, ["apptainer", "-q", "build", "--sandbox", path, f"docker://{name}"])
    return path


_PROGRAMS: "dict[str, Callable[[str, str, str], str]]" = {
    "enroot": _by_enroot,
    "podman": _by_podman,
    "apptainer": _by_apptainer,
}


def is_squashfs(path: str) -> bool:
    """Return whether a file is a squashfs file system. Raises OSError."""
    with open(path, "rb") as file:
        return file.read(len(_SQUASHFS_MAGIC)) == _SQUASHFS_MAGIC


def unpack_squashfs(source: str, root: str) -> None:
    """Unpack a squashfs file; devices are left out. Raises ContainerError."""
    cpus = str(len(os.sched_getaffinity(0)))
    options = ["-no-progress", "-no-xattrs", "-no-exit-code", "-processors", cpus]
    _run(source, ["unsquashfs", *options, "-d", root, source])


def make_squashfs(root: str, target: str) -> None:
    """Write a root file system into a squashfs file. Raises ContainerError."""
    _run(target, ["mksquashfs", root, target, "-noappend", "-no-progress", "-quiet"])


def _run(image: str, words: "Sequence[str]", env: "Mapping[str, str] | None" = None) -> None:
    """Run a program to its end. Raises ContainerError with its last words where it fails."""
    try:
        done = subprocess.run(
            words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    except OSError as error:
        raise ContainerError(f"--container-image={image}: {words[0]}: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1][-_SHOWN_CHARACTERS:] if lines else f"exit code {done.returncode}"
        raise ContainerError(f"--container-image={image}: {words[0]}: {why}")
