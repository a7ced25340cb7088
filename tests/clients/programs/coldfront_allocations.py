"""ColdFront (allocations of a site): a grant goes into accounting, and leaves it when it ends."""

import os
import subprocess
from importlib.metadata import version
from pathlib import Path
from shutil import which

HERE = os.getcwd()
USER = os.environ["USER"]
os.environ.update(
    PLUGIN_SLURM="True",
    SLURM_SACCTMGR_PATH=which("sacctmgr"),
    SLURM_IGNORE_USERS="root",
    SLURM_IGNORE_ACCOUNTS="science",
    DB_URL=f"sqlite:///{HERE}/coldfront.db",
    SECRET_KEY="not one",
    DJANGO_SETTINGS_MODULE="coldfront.config.settings",
    PYTHONWARNINGS="ignore",
)


def run(*words: str) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (words, done)
    return done.stdout


def associations() -> list[str]:
    """Return the associations of the account that ColdFront made."""
    fields = "format=account,user,grptres,fairshare,maxjobs"
    return run("sacctmgr", "-nP", "show", "assoc", "account=cold", fields).split()


def grant():
    """Grant an allocation to a project of one user, as its pages do."""
    from coldfront.core.allocation import models as allocations
    from coldfront.core.project import models as projects
    from coldfront.core.resource import models as resources
    from django.contrib.auth.models import User

    user = User.objects.create(username=USER)
    status = projects.ProjectStatusChoice.objects.get(name="Active")
    project = projects.Project.objects.create(title="cold", pi=user, status=status)
    kind = resources.ResourceType.objects.get(name="Cluster")
    resource = resources.Resource.objects.create(name="here", resource_type=kind)
    name = resources.ResourceAttributeType.objects.get(name="slurm_cluster")
    resources.ResourceAttribute.objects.create(
        resource=resource, resource_attribute_type=name, value="cluster"
    )
    active = allocations.AllocationStatusChoice.objects.get(name="Active")
    allocation = allocations.Allocation.objects.create(project=project, status=active)
    allocation.resources.add(resource)
    for name, value in (
        ("slurm_account_name", "cold"),
        ("slurm_specs", "Fairshare=7:GrpTRES=cpu=3"),
        ("slurm_user_specs", "MaxJobs=2"),
    ):
        kind = allocations.AllocationAttributeType.objects.get(name=name)
        allocations.AllocationAttribute.objects.create(
            allocation=allocation, allocation_attribute_type=kind, value=value
        )
    status = allocations.AllocationUserStatusChoice.objects.get(name="Active")
    allocations.AllocationUser.objects.create(allocation=allocation, user=user, status=status)
    return allocation


if __name__ == "__main__":
    run("coldfront", "initial_setup", "--force_overwrite")
    import django

    django.setup()
    allocation = grant()
    run("coldfront", "slurm_dump", "-c", "cluster", "-o", "out")
    dumped = Path("out/cluster.cfg").read_text()
    run("sacctmgr", "-i", "load", "out/cluster.cfg")
    assert associations() == ["cold||cpu=3|7|", f"cold|{USER}||1|2"], (associations(), dumped)
    check = ("coldfront", "slurm_check", "-c", "cluster", "-a", "cold")
    assert run(*check) == "", dumped
    number = run(
        "sbatch", "-W", "--parsable", "-A", "cold", "-o", "job.out", "--wrap", "srun hostname"
    )
    assert run("sacct", "-nXPo", "account,state", "-j", number.strip()) == "cold|COMPLETED\n"
    allocation.allocationuser_set.all().delete()
    gone = [f"{USER}\tcold\tcluster\tRemove", "\tcold\tcluster\tRemove"]
    assert run(*check, "--sync").splitlines() == gone
    assert associations() == []
    print("coldfront", version("coldfront"), "ok")
