"""What a node reports about itself, when it registers and to `scontrol show slurmd`."""

from __future__ import annotations

import os
import time

import msgspec

from pyslurm_ng import __version__
from pyslurm_ng.d.host import sensors
from pyslurm_ng.d.host.gres import without_missing
from pyslurm_ng.d.node.local_node import LocalNode, boot_clock_us
from pyslurm_ng.d.node.setup import Options
from pyslurm_ng.d.steps.step_runner import StepKey
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.wire import node_messages as nm


class Registration:
    """Describes one node and its slurmd, which has just started."""

    def __init__(self, node: LocalNode, options: Options) -> None:
        self._node = node
        self._options = options
        self._started_us = time.time_ns() // 1000

    def message(self) -> nm.RegisterNode:
        """Return what the node registers with."""
        core = self._node.core
        return nm.RegisterNode(
            facts=msgspec.msgpack.encode(self.facts()),
            jobs=core.running(boot_clock_us(), time.time_ns() // 1000),
            epoch=core.epoch,
            conf_hash=self._node.conf.text_hash,
            load_hundredths=sensors.load_hundredths(),
            free_mem_mib=sensors.free_mem_mib(),
            newest_job_id=core.newest_job_id,
            dynamic=self._node.setup.dynamic_line,
        )

    def facts(self) -> NodeFacts:
        """Return the hardware, or the configured values if the node uses config_overrides."""
        setup, options = self._node.setup, self._options
        host, line = sensors.host_facts(self._node.conf.tmp_fs), setup.line
        cpus, boards = host.cpus, host.boards
        sockets, cores, threads = host.sockets, host.cores_per_socket, host.threads_per_core
        memory, disk = host.real_memory_mib, host.tmp_disk_mib
        if setup.is_pretended:
            cpus, boards, sockets = line.cpus, line.boards, line.sockets
            cores, threads = line.cores_per_socket, line.threads_per_core
            memory, disk = line.real_memory_mib, max(disk, line.tmp_disk_mib)
        return NodeFacts(
            arch=host.arch,
            os=host.os,
            version=__version__,
            cpus=cpus,
            boards=boards,
            sockets=sockets,
            cores_per_socket=cores,
            threads_per_core=threads,
            real_memory_mib=memory,
            tmp_disk_mib=disk,
            gres=without_missing(setup.node.devices, self._node.lost_gpus),
            boot_id=options.boot_id or host.boot_id,
            boot_us=host.boot_us,
            daemon_start_us=self._started_us,
            hostname=host.hostname,
            addr=line.address,
            instance_id=options.instance_id,
            instance_type=options.instance_type,
            extra=options.extra,
            topology=options.topology,
        )

    def status(self, running: list[StepKey]) -> nm.NodeDaemonStatus:
        """Return what `scontrol show slurmd` prints."""
        facts, node = self.facts(), self._node
        return nm.NodeDaemonStatus(
            node=node.name,
            hostname=facts.hostname,
            steps=[(job_id, step_id) for job_id, step_id, _ in sorted(running)],
            cpus=facts.cpus,
            boards=facts.boards,
            sockets=facts.sockets,
            cores_per_socket=facts.cores_per_socket,
            threads_per_core=facts.threads_per_core,
            real_memory_mib=facts.real_memory_mib,
            tmp_disk_mib=facts.tmp_disk_mib,
            started_us=self._started_us,
            last_order_us=node.last_order_us,
            pid=os.getpid(),
            log_level=node.log.level,
            log_file=self._options.log_path or node.setup.log_file,
            version=__version__,
        )
