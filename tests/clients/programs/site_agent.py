"""waldur-site-agent-slurm keeps accounts, users, limits and QOS by sacctmgr and by REST."""

import os
import shutil
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

from waldur_site_agent_slurm.client import SlurmClient
from waldur_site_agent_slurm.rest_client import SlurmRestClient

ME = os.environ["USER"]
BIN = str(Path(shutil.which("sacctmgr")).parent)
CPU, MEMORY = {"unit_factor": 60000}, {"unit_factor": 61440000}
TRES = {
    name: {**factor, "limit": 10, "measured_unit": "h", "label": name, "accounting_type": "usage"}
    for name, factor in (("cpu", CPU), ("mem", MEMORY))
}


def keep(agent, project):
    """Do what a site does with a project, from its first day to its last."""
    part = f"{project}_part"
    assert agent.validate_slurm_binary() and agent.get_version().startswith("slurm ")
    assert {"cpu", "mem", "billing"} <= set(agent.list_tres())
    agent.create_resource(project, "A project", "org", "root")
    agent.create_resource(part, "Its part", "org", project)
    assert agent.get_resource(project).organization == "org"
    assert agent.get_resource("nothing") is None
    assert agent.get_account_parent(part) == project
    for _ in range(2):  # the second time nothing is modified
        agent.set_account_parent(part, "root")
    assert agent.get_account_parent(part) == "root"
    agent.set_resource_limits(project, {"cpu": 6000, "mem": 100000})
    assert agent.get_resource_limits(project) == {"cpu": 6000, "mem": 100000}

    agent.create_association(ME, project)
    agent.create_association("bin", project)
    assert agent.get_association(ME, project).account == project
    assert sorted(agent.list_resource_users(project)) == sorted(("bin", ME))
    agent.set_resource_user_limits(project, ME, {"cpu": 500})
    assert agent.get_resource_user_limits(project)[ME] == {"cpu": 500}
    agent.create_association_with_partitions("sys", project, ["debug"])

    agent.create_qos(project, flags="DenyOnLimit,NoDecay", max_jobs=3, max_wall="1-00:00:00")
    assert agent.qos_exists(project) and not agent.qos_exists("nothing")
    agent.add_account_qos(project, project)
    agent.set_account_default_qos(project, project)
    assert sorted(agent.get_current_account_qos(project).split(",")) == sorted(("normal", project))
    assert agent.set_account_fairshare(project, 33)
    agent.set_account_grp_submit_jobs(project, 5)

    words = ["sbatch", "--parsable", "-A", project, "-o", "/dev/null", "--wrap", "sleep 300"]
    number = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    until = time.monotonic() + 60
    while not agent.list_active_user_jobs(project, ME) and time.monotonic() < until:
        time.sleep(0.5)
    assert number in map(str, agent.list_active_user_jobs(project, ME))
    assert [line.account for line in agent.get_usage_report([project])] == [project]
    agent.cancel_active_user_jobs(project, ME)
    while subprocess.run(["squeue", "-hj", number], capture_output=True, text=True).stdout:
        time.sleep(0.5)

    agent.delete_association(ME, project)
    agent.delete_all_users_from_account(project)
    assert not agent.account_has_users(project)
    for account in (part, project):
        agent.delete_resource(account)
    agent.delete_qos(project)
    assert project not in [account.name for account in agent.list_resources()]


cluster = SlurmClient(TRES, slurm_bin_path=BIN).list_clusters()[0]
keep(SlurmClient(TRES, slurm_bin_path=BIN, cluster_name=cluster), "bylines")
said = subprocess.run(["scontrol", "token"], check=True, capture_output=True, text=True).stdout
os.environ["AGENT_TOKEN"] = said.strip().partition("=")[2]
server = subprocess.Popen(["slurmrestd", "-a", "rest_auth/jwt", f"unix:{Path.cwd()}/rest.sock"])
try:
    while not Path("rest.sock").exists():
        time.sleep(0.2)
    for number in ("v0.0.43", "v0.0.46"):
        settings = {"url": f"unix://{Path.cwd()}/rest.sock", "api_version": number}
        settings |= {"username": ME, "token_env": "AGENT_TOKEN"}
        keep(SlurmRestClient(TRES, settings, cluster, BIN), f"byrest{number[-2:]}")
finally:
    server.terminate()
print(f"waldur-site-agent-slurm {version('waldur-site-agent-slurm')}", "ok")
