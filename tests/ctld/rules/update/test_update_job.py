"""`scontrol update job`: what blank values mean."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import UserRecord
from pyslurm_ng.model.job import Job
from pyslurm_ng.wire.query_messages import UpdateJob
from tests.model.clusters import START_US
from tests.world.callers import ALICE, ROOT
from tests.world.site import Site


def update(scene: Site, job: Job, **settings: str) -> None:
    message = UpdateJob(bytes(16), settings, [str(job.job_id)])
    decision = update_job(scene.cluster, message, scene.context(ALICE))
    assert not isinstance(decision, Reject)
    scene.apply(decision.events)


def test_account_and_qos_go_back_to_the_users_own() -> None:
    """The manual: a value may be cleared with a blank one."""
    scene = Site("AccountingStorageEnforce=associations,qos")
    scene.account()
    job = scene.job(begin_us=scene.now_us + 10**9)
    update(scene, job, qos="late")
    assert (job.account, job.qos) == ("physics", "late")
    assert refusals(scene, job, qos="late,none") == [Errno.ESLURM_INVALID_QOS]
    update(scene, job, qos="normal,late")
    assert job.qos in ("normal", "late"), "the one of highest priority"
    update(scene, job, qos="", account="")
    assert (job.account, job.assoc_id, job.qos) == ("physics", 3, "normal")


def test_operators_may_give_a_qos_that_the_user_has_not_got() -> None:
    """As in Slurm; its user may not."""
    scene = Site("AccountingStorageEnforce=associations,qos")
    scene.account()
    job = scene.job(begin_us=scene.now_us + 10**9)
    assoc = scene.cluster.assocs[job.assoc_id]
    scene.cluster.assocs[job.assoc_id] = msgspec.structs.replace(assoc, qos=("normal",))
    assert refusals(scene, job, ALICE, qos="late") == [Errno.ESLURM_INVALID_QOS]
    assert refusals(scene, job, qos="late") == []
    assert job.qos == "late"


@pytest.mark.parametrize(
    ("priority", "code"),
    [("1", Errno.ESLURM_PRIO_RESET_FAIL), ("4294967000", Errno.ESLURM_ACCESS_DENIED)],
)
def test_users_are_told_to_use_nice_for_a_lower_priority(priority: str, code: int) -> None:
    """A higher one is not theirs to give."""
    scene = Site("PriorityType=priority/multifactor\nPriorityWeightJobSize=100000")
    job = scene.job(begin_us=scene.now_us + 10**9)
    assert refusals(scene, job, ALICE, priority=priority) == [code]
    assert job.priority == NO_VAL
    assert refusals(scene, job, priority="900") == []
    assert refusals(scene, job, ALICE, priority="899") == [Errno.ESLURM_PRIO_RESET_FAIL]
    assert refusals(scene, job, ALICE, priority="901") == [Errno.ESLURM_ACCESS_DENIED]


@pytest.mark.parametrize(
    ("priority", "code"),
    [("899", Errno.ESLURM_PRIO_RESET_FAIL), ("901", Errno.ESLURM_ACCESS_DENIED)],
)
def test_users_are_told_so_of_running_jobs_too(priority: str, code: int) -> None:
    """Their priority is the one with which they started."""
    scene = Site()
    job = scene.running()
    job.start_priority = 900
    assert refusals(scene, job, ALICE, priority=priority) == [code]


def refusals(scene: Site, job: Job, who: Caller = ROOT, **settings: str) -> list[int]:
    """Change a job; return the numbers of what is refused."""
    message = UpdateJob(bytes(16), settings, [str(job.job_id)])
    decision = update_job(scene.cluster, message, scene.context(who))
    assert not isinstance(decision, Reject)
    scene.apply(decision.events)
    return [code for _, code, _ in decision.reply.errors]


GPUS = "NodeName=g1 CPUs=16 CoresPerSocket=16 RealMemory=4096 Gres=gpu:a100:4"


@pytest.mark.parametrize("text", ["gres:gpu:2", "gres/gpu:2", "gpu:2", "gres/gpu=2"])
def test_gpus_of_a_job_may_be_named_in_every_way(text: str) -> None:
    """In each way that Slurm 22.05 took, and as scontrol shows them."""
    scene = Site(f"{GPUS}\nPartitionName=gpus Nodes=g1")
    job = scene.job(partition="gpus", begin_us=scene.now_us + 10**9)
    assert refusals(scene, job, tresperjob=text) == []
    assert job.request.gpus == "2"
    assert refusals(scene, job, tresperjob="gres/gpu:a100:1") == []
    assert job.request.gpus == "a100:1"
    assert refusals(scene, job, cpuspertres="gres/gpu:3") == []
    assert job.request.cpus_per_gpu == 3
    assert refusals(scene, job, tresperjob="") == []
    assert job.request.gpus == ""


def test_other_resources_than_gpus_are_refused() -> None:
    """A whole job, or each GPU, can have no other resources."""
    scene = Site()
    job = scene.job(begin_us=scene.now_us + 10**9)
    assert refusals(scene, job, tresperjob="gres/nic:1") == [Errno.ESLURM_INVALID_GRES]
    assert refusals(scene, job, cpuspertres="gres/nic:1") == [Errno.ESLURM_INVALID_TRES]
    assert refusals(scene, job, mempertres="5") == [Errno.ESLURM_INVALID_TRES]
    assert refusals(scene, job, tresbind="gpu:foo") == [Errno.ESLURM_INVALID_TRES]


def test_what_the_site_does_not_allow_is_refused() -> None:
    """Special cores need AllowSpecResourcesUsage, burst buffers and labels a plugin."""
    scene = Site()
    job = scene.job(begin_us=scene.now_us + 10**9)
    assert refusals(scene, job, corespec="1") == [Errno.ESLURM_ACCESS_DENIED]
    assert refusals(scene, job, burstbuffer="x") == [Errno.ESLURM_NOT_SUPPORTED]
    assert refusals(scene, job, mcslabel="x") == [Errno.ESLURM_INVALID_MCS_LABEL]
    assert refusals(scene, job, mcslabel="") == []
    allowed = Site("AllowSpecResourcesUsage=YES")
    job = allowed.job(begin_us=allowed.now_us + 10**9)
    assert refusals(allowed, job, corespec="1") == []
    assert job.request.core_spec == 1


def test_a_job_waits_for_switches_as_long_as_the_update_says() -> None:
    """The time comes with the count, or in a key of its own."""
    scene = Site()
    job = scene.job(begin_us=scene.now_us + 10**9)
    settings = {"switches": "1", "wait-for-switch": "200"}
    assert refusals(scene, job, **settings) == []
    assert (job.request.switches, job.request.switches_wait_s) == (1, 200)
    for settings in ({"wait-for-switch": "600"}, {"switches": "1@10"}):
        assert refusals(scene, job, **settings) == []
        assert job.request.switches_wait_s == 300  # max_switch_wait


def test_a_job_gets_another_time_before_nodes_boot() -> None:
    """DelayBoot: minutes and all other forms of a time limit."""
    scene = Site()
    job = scene.job(begin_us=scene.now_us + 10**9)
    for text, minutes in (("5", 5), ("1:30:00", 90), ("0", 0)):
        assert refusals(scene, job, delayboot=text) == []
        assert job.request.delay_boot_min == minutes


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"wckey": "w" * 200}, "wckey: at most 128 characters are allowed"),
        ({"features": "a&" * 3000 + "a"}, "constraint: at most 4096 characters are allowed"),
        ({"mincpusnode": "9999999999"}, "mincpus: 0 to 2147483647 are allowed"),
        ({"mailuser": "a@b\nBcc: evil@x"}, "mail_user: user names and addresses"),
        ({"mailuser": "|id"}, "mail_user: user names and addresses"),
        ({"stdout": "/" * 5000}, "std_out: at most 4096 characters are allowed"),
    ],
)
def test_an_update_keeps_to_the_bounds_of_a_submission(settings: dict[str, str], said: str) -> None:
    """Otherwise a value that no message may hold would get into the journal."""
    scene = Site()
    job = scene.job(begin_us=scene.now_us + 10**9)
    before = job.request
    message = UpdateJob(bytes(16), settings, [str(job.job_id)])
    decision = update_job(scene.cluster, message, scene.context(ROOT))
    assert not isinstance(decision, Reject)
    assert not decision.events
    ((_, _, text),) = decision.reply.errors
    assert text.startswith(said)
    assert job.request == before


@pytest.mark.parametrize("value", ["9" * 5000, "\u00b2", "\u0663", "-1", ""])
@pytest.mark.parametrize(
    "key", ["starttime", "deadline", "arraytaskthrottle", "sitefactor", "wait-for-switch", "nice"]
)
def test_numbers_that_are_none_are_refused(key: str, value: str) -> None:
    """Python takes digits of other scripts for digits, and gives up on 4,301 of them."""
    scene = Site()
    job = scene.job(begin_us=scene.now_us + 10**9)
    if value == "-1" and key in ("nice", "sitefactor"):
        return
    if value == "" and key in ("starttime", "deadline", "nice"):
        return
    assert len(refusals(scene, job, **{key: value})) == 1


def test_long_settings_change_few_jobs_at_once() -> None:
    """A message of 64 KiB changed 10,000 jobs.

    Each read the text again, which took twenty minutes in all.
    """
    scene = Site()
    jobs = [scene.job(begin_us=scene.now_us + 10**9) for _ in range(20)]
    ids = [str(job.job_id) for job in jobs]
    message = UpdateJob(bytes(16), {"excnodelist": "n1," * 20_000 + "n1"}, ids)
    decision = update_job(scene.cluster, message, scene.context(ALICE))
    assert not isinstance(decision, Reject)
    reply = decision.reply
    assert (reply.count, reply.errors, reply.is_partial, reply.next_id) == (1, [], True, 1)
    short = UpdateJob(bytes(16), {"comment": "x" * 100}, ids)
    decision = update_job(scene.cluster, short, scene.context(ALICE))
    assert not isinstance(decision, Reject)
    assert decision.reply.count == 20


def test_short_settings_that_mean_much_go_to_few_jobs_at_once() -> None:
    """Six words name 6,000 tasks, and each job asks about each of them."""
    scene = Site()
    array = scene.job(array="0-999", begin_us=scene.now_us + 10**9)
    ids = [str(scene.job(begin_us=scene.now_us + 10**9).job_id) for _ in range(40)]
    text = ",".join(f"{kind}:{array.job_id}_[0-999]" for kind in ("after", "afterok", "afterany"))
    message = UpdateJob(bytes(16), {"dependency": text}, ids)
    decision = update_job(scene.cluster, message, scene.context(ROOT))
    assert not isinstance(decision, Reject)
    reply = decision.reply
    assert (reply.count, reply.errors, reply.is_partial) == (1, [], True)


def test_tasks_may_be_given_licenses() -> None:
    """TresPerTask=license/NAME:N: as many as all tasks want; licences of other names stay."""
    scene = Site("Licenses=matlab:10,soft:5")
    job = scene.job(ntasks=3, licenses="soft:1,matlab:1", begin_us=scene.now_us + 10**9)
    assert refusals(scene, job, trespertask="license/matlab:2,cpu:1") == []
    assert (job.request.licenses, job.request.cpus_per_task) == ("soft:1,matlab:6", 1)
    assert refusals(scene, job, trespertask="license/none:1") == [Errno.ESLURM_INVALID_LICENSES]
    assert refusals(scene, job, trespertask="license/:1") == [Errno.ESLURM_INVALID_TRES]


def test_a_job_that_has_ended_stays_as_it_is() -> None:
    """Not even what others note about it changes, also while its nodes are cleaned."""
    scene = Site()
    job = scene.job()
    scene.run_pass()
    scene.ended(job, 0)
    for key in ("comment", "admincomment", "extra", "nice"):
        assert refusals(scene, job, **{key: "1"}) == [Errno.ESLURM_JOB_FINISHED]


def test_only_administrators_have_a_job_boot_its_nodes() -> None:
    """As at submission."""
    scene = Site()
    job = scene.job(begin_us=scene.now_us + 10**9)
    message = UpdateJob(bytes(16), {"reboot": "yes"}, [str(job.job_id)])
    operator = Caller(1003, 1003, "op", is_operator=True)
    decision = update_job(scene.cluster, message, scene.context(operator))
    assert not isinstance(decision, Reject)
    assert [code for _, code, _ in decision.reply.errors] == [Errno.ESLURM_ACCESS_DENIED]
    assert refusals(scene, job, reboot="yes") == []


@pytest.mark.parametrize(
    ("tasks", "cpus", "after"),
    [(1, "4", (1, 4)), (2, "6", (2, 3)), (2, "4-8", (2, 2)), (4, "2", (2, 1)), (3, "4", (4, 1))],
)
def test_cpus_of_a_job_are_those_of_its_tasks(
    tasks: int, cpus: str, after: tuple[int, int]
) -> None:
    """NumCPUs=4 must not make a script of one task start four programs with srun."""
    scene = Site()
    job = scene.job(ntasks=tasks, begin_us=scene.now_us + 10**9)
    assert refusals(scene, job, numcpus=cpus) == []
    assert (job.request.ntasks or 1, job.request.cpus_per_task or 1) == after


def test_without_enforcement_any_account_is_taken() -> None:
    """As at submission."""
    scene = Site()
    scene.account()
    job = scene.job(begin_us=scene.now_us + 10**9, account="chemistry")
    assert job.account == "chemistry"
    update(scene, job, account="biology")
    assert (job.account, job.assoc_id) == ("biology", 0)


def test_features_are_spelled_with_and() -> None:
    """A comma means the same, and Slurm 22.05 keeps the other sign."""
    scene = Site("SchedulerParameters=ignore_constraint_validation,ignore_prefer_validation")
    job = scene.job(begin_us=scene.now_us + 10**9, constraint="a,b", prefer="a,b")
    assert (job.request.constraint, job.request.prefer) == ("a&b", "a&b")
    update(scene, job, features="b,a")
    assert job.request.constraint == "b&a"


def test_features_of_clusters_are_refused() -> None:
    """A job has no siblings in other clusters; Slurm says no more than this."""
    scene = Site()
    job = scene.job(begin_us=scene.now_us + 10**9)
    assert refusals(scene, job, clusterfeatures="x") == [Errno.SLURM_ERROR]


def test_more_nodes_than_the_partition_has_cpus_are_refused() -> None:
    """In the words of Slurm 22.05, which waits for fewer nodes, as after a submission."""
    scene = Site()
    job = scene.job(begin_us=scene.now_us + 10**9)
    unavailable = [Errno.ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE]
    assert refusals(scene, job, numnodes="99") == unavailable
    assert refusals(scene, job, numnodes="65-99") == unavailable
    assert job.request.nodes_min == 0
    assert refusals(scene, job, numnodes="5") == []
    assert job.request.nodes_min == 5


@pytest.mark.parametrize(("more", "key"), [("TrackWCKey=yes", "wb"), ("", "")])
def test_a_wckey_without_a_value_is_the_users_default(more: str, key: str) -> None:
    """As in Slurm, where keys are tracked."""
    site = Site(more)
    site.account()
    users = (UserRecord("alice", "physics", default_wckey="wb", wckeys=("wa", "wb")),)
    site.apply([ev.AssocChanged(START_US, users=users)])
    job = site.job(begin_us=site.now_us + 10**9, wckey="wa")
    update(site, job, wckey="")
    assert job.request.wckey == key


def test_a_job_without_a_limit_has_that_of_its_new_partition() -> None:
    """As in Slurm: the partition's most, not its default. A limit that was asked for stays."""
    scene = Site("PartitionName=hour Nodes=ALL MaxTime=60 DefaultTime=10")
    free, limited = (
        scene.job(begin_us=scene.now_us + 10**9, **more) for more in ({}, {"time_limit_min": 120})
    )
    for job in (free, limited):
        assert refusals(scene, job, ALICE, partition="hour") == []
    assert (free.time_limit_min, limited.time_limit_min) == (60, 120)
    assert refusals(scene, free, ALICE, partition="hour", timelimit="5") == []
    assert free.time_limit_min == 5
