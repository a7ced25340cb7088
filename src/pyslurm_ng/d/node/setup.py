"""slurm.conf and its neighbours, and this host, as one node daemon needs them."""

from __future__ import annotations

import os
import pwd
from ctypes import CDLL
from dataclasses import dataclass, replace
from importlib.util import find_spec

from pyslurm_ng.base import libpmix
from pyslurm_ng.conf import acct_gather_conf
from pyslurm_ng.conf.cgroup_conf import CgroupConf, load_cgroup_conf, parse_cgroup_conf
from pyslurm_ng.conf.check import check
from pyslurm_ng.conf.gres_conf import DETECTED_HERE, GresConf, empty_gres_conf, load_gres_conf
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.namespaces import FILE_OF, Namespaces, load_namespaces, misplaced
from pyslurm_ng.conf.oci_conf import load_oci_conf
from pyslurm_ng.conf.on_host import missing_users
from pyslurm_ng.conf.slurm_conf import NodeConf, SlurmConf, load_slurm_conf
from pyslurm_ng.d.host import binding, cgroup, gres, nvml
from pyslurm_ng.d.host.sensors import host_memory_mib
from pyslurm_ng.d.node.bad_setup import BadSetup
from pyslurm_ng.d.node.dynamic_node import with_dynamic_node
from pyslurm_ng.d.node.future_node import with_own_host
from pyslurm_ng.d.node.launch_plugins import launch_plugins
from pyslurm_ng.d.spec.node_setup import NodeSetup
from pyslurm_ng.d.spec.step_clocks import words_of
from pyslurm_ng.d.stepd import pam_session
from pyslurm_ng.model.node import NodeGres

_USUAL_PORT = 6818


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of slurmd."""

    conf_path: str
    node_name: str = ""
    foreground: bool = False
    clean: bool = False
    log_path: str = ""
    spool: str = ""
    verbose: int = 0
    quiet: int = 0
    boot_id: str = ""  # -b: a node that says it was just booted
    extra: str = ""  # for the node's Extra, InstanceId and InstanceType
    instance_id: str = ""
    instance_type: str = ""
    topology: str = ""  # where the node is in the network: the Topology= of --conf
    is_dynamic: bool = False  # -Z: the controller makes the node
    is_future: bool = False  # -F: the controller has chosen the node
    host_name: str = ""  # of such a node: what -N says this host is called
    own_keys: str = ""  # of such a node: what --conf says


@dataclass(frozen=True, slots=True)
class Setup:
    """One consistent reading of everything."""

    node: NodeSetup
    line: NodeConf
    service_uid: int
    spool: str
    pid_file: str
    log_file: str
    is_pretended: bool
    warnings: tuple[str, ...]
    dynamic_line: str = ""  # what the controller makes the node of


def load_setup(options: Options) -> Setup:
    """Read the configuration and find this node in it.

    Raises:
        BadSetup: with every problem of every file, or none of the nodes is this one.
    """
    path = options.conf_path
    problems = check(path) or [str(error) for error in missing_users(path)]
    if problems:
        raise BadSetup(problems)
    conf = load_slurm_conf(options.conf_path)
    _check_mpi(conf)
    _check_pam(conf)
    _check_profiles(conf)
    if conf.gpu_freq_def and words_of(conf.gpu_freq_def) is None:
        text = "low, medium, high, highm1, MHz and memory= of these are allowed"
        raise BadSetup([f"GpuFreqDef={conf.gpu_freq_def}: {text}"])
    host = os.uname().nodename.partition(".")[0]
    dynamic_line = ""
    if options.is_dynamic:
        name = options.node_name or host
        dynamic_line, conf = with_dynamic_node(conf, name, options.own_keys)
    if options.is_future:
        conf = with_own_host(conf, options.node_name, options.host_name)
    line = find_node(conf, options.node_name or (host if options.is_dynamic else ""), host)
    pretended = any(word.lower() == "config_overrides" for word in conf.slurmd_parameters)
    directory = os.path.dirname(conf.path)
    gres_path, cgroup_path = f"{directory}/gres.conf", f"{directory}/cgroup.conf"
    gres_conf = (
        load_gres_conf(gres_path, conf.gres_types, conf.nodes)
        if os.path.exists(gres_path)
        else empty_gres_conf()
    )
    groups = load_cgroup_conf(cgroup_path) if os.path.exists(cgroup_path) else parse_cgroup_conf("")
    gather = acct_gather_conf.beside(conf)
    warnings = [*conf.warnings, *groups.warnings, *gres_conf.warnings, *_measuring(conf, gather)]

    def path_of(text: str) -> str:
        return text.replace("%n", line.name).replace("%h", host)

    spool = options.spool or path_of(conf.slurmd_spool_dir)
    service_uid = _uid_of(conf.slurm_user)
    node = NodeSetup(
        node_name=line.name,
        host_name=host,
        spool=spool,
        conf=conf,
        cgroup_conf=groups,
        devices=_devices(line, gres_conf, warnings),
        tree=_tree(conf, groups, _group_name(line), warnings),
        host=_host(line, is_pretended=pretended),
        memory_mib=_memory_mib(line),
        plugins=launch_plugins(conf, service_uid, warnings),
        namespaces=_namespaces(conf, line.name, host, spool),
        oci=load_oci_conf(f"{directory}/oci.conf")[0]
        if os.path.exists(f"{directory}/oci.conf")
        else None,
        gather=gather,
    )
    return Setup(
        node=node,
        line=line,
        service_uid=service_uid,
        spool=spool,
        pid_file=path_of(conf.slurmd_pid_file),
        log_file=path_of(conf.slurmd_log_file),
        is_pretended=pretended,
        warnings=tuple(warnings),
        dynamic_line=dynamic_line,
    )


def _memory_mib(line: NodeConf) -> int:
    """Return a node's memory; a line that does not say it has 1, of which no limit can be made."""
    return line.real_memory_mib if line.real_memory_mib > 1 else host_memory_mib()


def _namespaces(conf: SlurmConf, node: str, host: str, spool: str) -> Namespaces | None:
    """Return the private directories of this node's jobs, None if they have none.

    Raises:
        BadSetup: they are configured and cannot be made.
    """
    if conf.namespace_type not in FILE_OF:
        return None
    path = f"{os.path.dirname(conf.path)}/{FILE_OF[conf.namespace_type]}"
    try:
        namespaces = load_namespaces(path, node, host)
    except ConfErrors as problems:
        raise BadSetup([str(error) for error in problems.errors]) from None
    if namespaces is None:
        return None
    lead = f"NamespaceType={conf.namespace_type}"
    if os.geteuid() != 0:
        raise BadSetup([f"{lead}: only a slurmd of root can give jobs private directories"])
    lines = misplaced(path, namespaces, spool)
    if lines:
        raise BadSetup(lines)
    for base in namespaces.base_paths:
        if not namespaces.makes_base_path and not os.path.isdir(base):
            raise BadSetup([f"{path}: BasePath={base}: there is no such directory"])
    return namespaces


def _check_mpi(conf: SlurmConf) -> None:
    """Refuse a default for which this host lacks the library: no step of srun would start.

    Raises:
        BadSetup: by name.
    """
    kind, _, version = conf.mpi_default.partition("_v")
    if kind != "pmix":
        return
    have = libpmix.major()
    if not have:
        raise BadSetup([f"MpiDefault={conf.mpi_default}: this host has no {libpmix.NAME}"])
    if version and version != str(have):
        text = f"MpiDefault={conf.mpi_default}: this host has version {have} of the library"
        raise BadSetup([text])


def _check_pam(conf: SlurmConf) -> None:
    """Refuse sessions that cannot be opened: no task would start. Raises BadSetup."""
    if not conf.use_pam:
        return
    if os.geteuid() != 0:
        raise BadSetup(["UsePAM=yes: only a slurmd of root can open sessions of PAM"])
    try:
        CDLL(pam_session.LIBRARY)
    except OSError as error:
        raise BadSetup([f"UsePAM=yes: {error}"]) from None


def _check_profiles(conf: SlurmConf) -> None:
    """Refuse profiles in files that this host could not write.

    Raises:
        BadSetup: by name.
    """
    if conf.acct_gather_profile_type.endswith("/hdf5") and find_spec("h5py") is None:
        text = "the Python package h5py is not installed on this host"
        raise BadSetup([f"AcctGatherProfileType={conf.acct_gather_profile_type}: {text}"])


def _measuring(conf: SlurmConf, gather: acct_gather_conf.AcctGatherConf) -> list[str]:
    """Return what acct_gather.conf says without effect, and that its directory is missing."""
    warnings = list(gather.warnings)
    directory = gather.profile_hdf5_dir
    if conf.acct_gather_profile_type.endswith("/hdf5") and not os.path.isdir(directory):
        # No error: it may be mounted later.
        warnings.append(
            f"ProfileHDF5Dir={directory}: no such directory, so profiles of jobs are lost"
        )
    return warnings


def _host(line: NodeConf, *, is_pretended: bool) -> binding.HostCores:
    """Return the host's CPUs by core, in the sockets that a pretended node is to have."""
    cores = binding.host_cores()
    if not is_pretended:
        return cores
    return replace(cores, per_socket=max(1, line.cores_per_socket))


def find_node(conf: SlurmConf, name: str, host: str) -> NodeConf:
    """Return the configured node of that name, or the only one on this host.

    Raises:
        BadSetup: there is none, or several on this host and no name.
    """
    if name:
        for line in conf.nodes:
            if line.name == name:
                return line
        raise BadSetup([f"{conf.path}: NodeName={name} is not configured"])
    full = os.uname().nodename
    own_lines = [line for line in conf.nodes if line.name in (host, full)]
    own_lines = own_lines or [
        line for line in conf.nodes if line.hostname in (host, full, "localhost")
    ]
    if len(own_lines) == 1:
        return own_lines[0]
    if not own_lines:
        raise BadSetup([f"Unable to determine this slurmd's NodeName: no node is on host {host}"])
    names = ",".join(line.name for line in own_lines[:8])
    raise BadSetup([f"{len(own_lines)} nodes are on host {host} ({names}): choose one with -N"])


def _devices(line: NodeConf, conf: GresConf, warnings: list[str]) -> tuple[NodeGres, ...]:
    """Return the node's generic resources, devices detected where that is asked for."""
    detected: list[nvml.DetectedGpu] = []
    how = conf.auto_detect_on(line.name).lower()
    if how in ("nvml", "full", "nvidia"):
        try:
            detected = nvml.detect()
        except nvml.DetectionError as error:
            if how == "nvml":
                raise BadSetup([f"AutoDetect=nvml: {error}"]) from None
            warnings.append(f"AutoDetect={how}: {error}")
    elif how and how not in DETECTED_HERE:
        raise BadSetup([f"AutoDetect={how}: not supported yet"])
    try:
        devices = gres.node_gres(line, conf, detected)
    except gres.GresError as error:
        raise BadSetup([str(error)]) from None
    _check_files(devices)
    return devices


def _check_files(devices: tuple[NodeGres, ...]) -> None:
    """Refuse files that are not there: a device that fell out would be given to jobs.

    Raises:
        BadSetup: with the first file of each resource that is missing.
    """
    problems = []
    for device in devices:
        for path in (path for paths in device.files for path in paths.split(",")):
            try:
                os.stat(path)
            except OSError as error:
                problems.append(f"can't stat gres.conf file {path}: {error.strerror}")
                break
    if problems:
        raise BadSetup(problems)


def _group_name(line: NodeConf) -> str:
    """Return the part of a name that tells this node's control groups from all others of the host.
    Clusters side by side may have nodes and jobs of the same names, but not the same port; and
    ending a step ends everything in its group.
    """
    return line.name if line.port == _USUAL_PORT else f"{line.name}_{line.port}"


def _tree(
    conf: SlurmConf, groups: CgroupConf, node_name: str, warnings: list[str]
) -> cgroup.Tree | None:
    """Return where control groups go; None if they are not asked for or cannot be made.

    Raises:
        BadSetup: a limit is configured that cannot be kept without them.
    """
    confines = "task/cgroup" in conf.task_plugin
    if not confines and conf.proctrack_type != "proctrack/cgroup":
        return None
    tree = cgroup.detect(groups.cgroup_mountpoint, groups.cgroup_plugin, node_name)
    if tree is not None:
        return tree
    if confines:
        raise BadSetup(
            [f"TaskPlugin=task/cgroup: control groups in {groups.cgroup_mountpoint} cannot be made"]
        )
    warnings.append(
        f"control groups in {groups.cgroup_mountpoint} cannot be made; processes are tracked "
        "by their descent"
    )
    return None


def _uid_of(user: str) -> int:
    return int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
