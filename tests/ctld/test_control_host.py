"""What accounting is told of where the controller is."""

from __future__ import annotations

from pyslurm_ng.ctld.accounting_link import control_host
from tests.model.clusters import FOUR_NODES, conf_of


def test_the_address_of_slurmctldhost_is_what_sacctmgr_shows() -> None:
    """`sacctmgr show cluster`: recorded with SlurmctldHost=ctl(127.0.0.1)."""
    text = "\n".join(line for line in FOUR_NODES.splitlines() if "SlurmctldHost" not in line)
    conf = conf_of(text + "\nSlurmctldHost=ctl(127.0.0.1)\nSlurmctldHost=spare\n")
    assert control_host(conf, "ctl") == "127.0.0.1"
    assert control_host(conf, "spare") == "spare"
