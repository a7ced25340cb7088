"""What a job's private directories on this node are to be, as the configuration says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.d.stepd import job_namespace as made

if TYPE_CHECKING:
    from pyslurm_ng.conf.namespaces import Namespaces, PrivateDirectory
    from pyslurm_ng.d.spec.node_setup import NodeSetup
    from pyslurm_ng.d.spool.step_contract import NamespaceSpec

_FLAGS = {
    "noatime": made.MS_NOATIME,
    "nodev": made.MS_NODEV,
    "nodiratime": made.MS_NODIRATIME,
    "noexec": made.MS_NOEXEC,
    "nosuid": made.MS_NOSUID,
    "relatime": made.MS_RELATIME,
    "ro": made.MS_RDONLY,
}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def namespace_spec(
    setup: NodeSetup, namespaces: Namespaces, job_id: int, attempt: int, uid: int, user: str
) -> NamespaceSpec:
    """Return the namespace of one attempt of a job."""
    name = directory_name(job_id, attempt)
    first = f"{namespaces.base_path}/{name}"
    variables = {
        "PATH": _PATH,
        "SLURM_CONF": setup.conf.path,
        "SLURM_JOB_ID": str(job_id),
        "SLURM_JOB_MOUNTPOINT_SRC": first,
        "SLURM_JOB_UID": str(uid),
        "SLURM_JOB_USER": user,
        "SLURM_NS": f"{first}/{made.PIN}",
        "SLURMD_NODENAME": setup.node_name,
    }
    return {
        "uid": uid,
        "directories": [f"{base}/{name}" for base in namespaces.base_paths],
        "places": [
            {
                "path": directory.path,
                "directory": f"{directory.base_path or namespaces.base_path}/{name}",
                "flags": _flags(directory),
                "tmpfs": directory.is_tmpfs,
            }
            for directory in namespaces.directories
        ],
        "shared": namespaces.is_shared,
        "init_script": namespaces.init_script,
        "script": namespaces.script,
        "script_wait_s": namespaces.script_wait_s,
        "epilog": namespaces.epilog,
        "epilog_wait_s": namespaces.epilog_wait_s,
        "env": [f"{key}={value}".encode() for key, value in variables.items()],
    }


def directory_name(job_id: int, attempt: int) -> str:
    """Return how the directory of one attempt is called: no two attempts share one."""
    return f"{job_id}.{attempt}" if attempt else str(job_id)


def _flags(directory: PrivateDirectory) -> int:
    flags = 0
    for word in directory.options:
        flags |= _FLAGS[word]
    return flags
