"""Every limit of associations and QOS, one by one: the reason it gives, and what it lets pass."""

from __future__ import annotations

import pytest
from hypothesis import given as given_by, settings, strategies as st

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.assoc import Association, Limits, Qos
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.measures import Ask
from pyslurm_ng.sched.limits.quotas import Quotas
from pyslurm_ng.sched.limits.usage import Ledger, OwnerKey, Spent
from tests.model.clusters import START_US
from tests.sched.limits.limited_jobs import (
    AMOUNTS,
    ANN,
    GPU,
    ask,
    limits_of,
    on,
    waiting,
)
from tests.world.examples import drawn

MAIN = Partition("main")
WORDS = {
    "cpu": "Cpu", "mem": "Mem", "node": "Node", "billing": "Billing", GPU: "GRES",
    "license/abaqus": "License", "energy": "Energy", "bb/cray": "BB", "fs/lustre": "Unknown",
}  # fmt: skip


def reason_of(limits: Quotas, job: Waiting = ANN, measured: Ask | None = None) -> Reason | None:
    """Return why a job may not start."""
    wait = limits.may_start(job, measured or ask())
    assert wait is None or any(letter.isdigit() for letter in wait.text), wait
    return None if wait is None else wait.reason


def names(kind: str, tres: str) -> tuple[str, str]:
    """Return the reasons of an association and of a QOS, written down by hand."""
    word = WORDS[tres]
    qos_word = {"Mem": "Memory"}.get(word, word)
    is_core = tres in ("cpu", "node")
    if kind == "grp_tres":
        end = "Limit" if tres in ("cpu", "mem", "node") else ""
        return f"AssocGrp{word}{end}", f"QOSGrp{word}{end}"
    if kind in ("grp_tres_mins", "grp_tres_run_mins"):
        run = "Run" if "run" in kind else ""
        if tres == "cpu":
            return f"AssocGrpCPU{run}MinutesLimit", f"QOSGrpCPU{run}MinutesLimit"
        return f"AssocGrp{word}{run}Minutes", f"QOSGrp{qos_word}{run}Minutes"
    if kind == "max_tres_per_job":
        end = "Limit" if is_core else ""
        return f"AssocMax{word}PerJob{end}", f"QOSMax{qos_word}PerJob{end}"
    if kind == "max_tres_per_node":
        return f"AssocMax{word}PerNode", f"QOSMax{qos_word}PerNode"
    assert kind == "max_tres_mins_per_job"
    end = "Limit" if tres == "cpu" else ""
    return f"AssocMax{word}MinutesPerJob{end}", f"QOSMax{qos_word}MinutesPerJob{end}"


# By limit: what one job of AMOUNTS may just have, if it is alone.
ENOUGH = {
    "grp_tres": lambda amount: amount,
    "grp_tres_run_mins": lambda amount: amount * 60,
    "max_tres_per_job": lambda amount: amount,
    "max_tres_per_node": lambda amount: -(-amount // 2),
    "max_tres_mins_per_job": lambda amount: amount * 60,
}
NO_SUCH_REASON = {
    ("max_tres_per_node", "node"), ("max_tres_per_node", "license/abaqus"),
    ("max_tres_per_node", "bb/cray"), ("max_tres_mins_per_job", "bb/cray"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "tres"),
    [(kind, tres) for kind in ENOUGH for tres in AMOUNTS if (kind, tres) not in NO_SUCH_REASON],
)
def test_a_limit_on_a_tres(kind: str, tres: str) -> None:
    """Exactly what it allows passes; one less is in the way, with Slurm's reason."""
    enough = ENOUGH[kind](AMOUNTS[tres])
    of_assoc, of_qos = names(kind, tres)
    for most, is_over in ((enough, False), (enough - 1, True)):
        limits = Limits(**{kind: {tres: most}})
        expected = {name: Reason[name] if is_over else None for name in (of_assoc, of_qos)}
        assert reason_of(limits_of(parent=limits)) is expected[of_assoc]
        assert reason_of(limits_of(own=limits)) is expected[of_assoc]
        assert reason_of(limits_of(quality=Qos(1, "normal", limits=limits))) is expected[of_qos]


@pytest.mark.parametrize("kind", ["grp_tres", "grp_tres_run_mins"])
def test_groups_count_all_that_run_in_them(kind: str) -> None:
    """Bob's job counts in the account and the QOS, not in ann's association."""
    limits = Limits(**{kind: {"cpu": 2 * ENOUGH[kind](10) - 1}})
    bob = waiting("bob")
    for quotas, is_over in (
        (limits_of(parent=limits), True),
        (limits_of(quality=Qos(1, "normal", limits=limits)), True),
        (limits_of(own=limits), False),
    ):
        quotas.took(bob, ask(nodes=(1, 2)))
        assert (reason_of(quotas) is not None) is is_over


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(max_jobs=1), Reason.QOSMaxJobsPerUserLimit),
        (Limits(grp_jobs=1), Reason.QOSGrpJobsLimit),
        (Limits(max_jobs_per_account=1), Reason.MaxJobsPerAccount),
        (Limits(max_tres_per_user={"cpu": 19}), Reason.QOSMaxCpuPerUserLimit),
        (Limits(max_tres_per_user={"mem": 19}), Reason.QOSMaxMemoryPerUser),
        (Limits(max_tres_per_user={GPU: 19}), Reason.QOSMaxGRESPerUser),
        (Limits(max_tres_per_user={"license/abaqus": 19}), Reason.QOSMaxLicensePerUser),
        (Limits(max_tres_per_account={"cpu": 19}), Reason.MaxCpuPerAccount),
        (Limits(max_tres_per_account={"mem": 19}), Reason.MaxMemoryPerAccount),
        (Limits(max_tres_per_account={GPU: 19}), Reason.MaxGRESPerAccount),
        (Limits(max_tres_run_mins_per_account={"cpu": 1199}), Reason.MaxCpuRunMinsPerAccount),
        (Limits(max_tres_run_mins={"cpu": 1199}), Reason.MaxCpuRunMinsPerUser),
    ],
)
def test_limits_of_a_qos_on_users_and_accounts(limits: Limits, reason: Reason) -> None:
    """The second job of the same user, account or QOS is too much."""
    quotas = limits_of(quality=Qos(1, "normal", limits=limits))
    assert reason_of(quotas) is None
    quotas.took(ANN, ask(nodes=(1, 2)))
    assert reason_of(quotas) is reason
    other = waiting(account="maths") if "Account" in reason.name else waiting("bob")
    expected = reason if "Grp" in reason.name else None
    assert reason_of(quotas, other) is expected


@pytest.mark.parametrize(
    ("tres", "reason"),
    [
        ("cpu", Reason.QOSMinCpuNotSatisfied),
        ("mem", Reason.QOSMinMemory),
        ("node", Reason.QOSMinNode),
        (GPU, Reason.QOSMinGRES),
        ("billing", Reason.QOSMinBilling),
        ("license/abaqus", Reason.QOSMinLicense),
    ],
)
def test_a_job_must_ask_for_enough(tres: str, reason: Reason) -> None:
    enough = Qos(1, "normal", limits=Limits(min_tres_per_job={tres: AMOUNTS[tres]}))
    more = Qos(1, "normal", limits=Limits(min_tres_per_job={tres: AMOUNTS[tres] + 1}))
    assert reason_of(limits_of(quality=enough)) is None
    assert reason_of(limits_of(quality=more)) is reason


def test_wall_time() -> None:
    """Of each job, and of all together that have run."""
    limits = Limits(max_wall_min=59)
    quality = Qos(1, "normal", limits=limits)
    assert reason_of(limits_of(own=limits)) is Reason.AssocMaxWallDurationPerJobLimit
    assert reason_of(limits_of(quality=quality)) is Reason.QOSMaxWallDurationPerJobLimit
    assert reason_of(limits_of(own=limits), measured=ask(59)) is None
    assert reason_of(limits_of(own=limits), measured=ask(INFINITE)) is not None
    limits = Limits(grp_wall_min=100)
    quality = Qos(1, "normal", limits=limits)
    used: dict[OwnerKey, Spent] = {("assoc", 10): Spent(6000.0), ("qos", "normal"): Spent(5999.0)}
    assert reason_of(limits_of(parent=limits, spent=used)) is Reason.AssocGrpWallLimit
    assert reason_of(limits_of(quality=quality, spent=used)) is None
    used["qos", "normal"] = Spent(6000.0)
    assert reason_of(limits_of(quality=quality, spent=used)) is Reason.QOSGrpWallLimit


@pytest.mark.parametrize("tres", [name for name in AMOUNTS if name != "bb/cray"])
def test_minutes_of_a_group(tres: str) -> None:
    """Without `safe` jobs start until all is used; with it none that could use too much."""
    limits = Limits(grp_tres_mins={tres: 1000})
    of_assoc, of_qos = (Reason[name] for name in names("grp_tres_mins", tres))
    less: dict[OwnerKey, Spent] = {
        ("assoc", 10): Spent(0, {tres: 59_990.0}), ("qos", "normal"): Spent(0, {tres: 59_990.0})
    }  # fmt: skip
    full = {owner: Spent(0, {tres: 60_000.0}) for owner in less}
    quality = Qos(1, "normal", limits=limits)
    assert reason_of(limits_of(parent=limits, spent=less)) is None
    assert reason_of(limits_of(parent=limits, spent=full)) is of_assoc
    assert reason_of(limits_of(quality=quality, spent=full)) is of_qos
    assert reason_of(limits_of(parent=limits, spent=less, is_safe=True)) is of_assoc
    quotas = limits_of(quality=quality, is_safe=True)
    amount = AMOUNTS[tres]
    assert reason_of(quotas, measured=ask(1000 // amount)) is None
    quotas.took(ANN, ask(500 // amount))
    assert reason_of(quotas, measured=ask(500 // amount)) is None
    assert reason_of(quotas, measured=ask(500 // amount + 1)) is of_qos


@pytest.mark.parametrize(("flags", "fits"), [((), True), (("UsageFactorSafe",), False)])
def test_the_usage_factor_counts_before_a_start_only_where_that_is_asked_for(
    flags: tuple[str, ...], fits: bool
) -> None:
    """With safe limits a job may start that could use twice its own minutes, or may not."""
    limits = Limits(grp_tres_mins={"cpu": 1000})
    factor = 2_000_000
    quality = Qos(1, "normal", limits=limits, usage_factor_millionths=factor, flags=flags)
    measured = ask(900 // AMOUNTS["cpu"])
    assert (reason_of(limits_of(quality=quality, is_safe=True), measured=measured) is None) == fits


def test_a_running_job_runs_out_of_minutes() -> None:
    """Its own by how long it ran; those of groups by what was used."""
    own = limits_of(own=Limits(max_tres_mins_per_job={"cpu": 100}))
    assert own.run_out(ANN, ask(), 9.9) is None
    wait = own.run_out(ANN, ask(), 10.0)
    assert wait is not None
    assert wait.reason is Reason.AssocMaxCpuMinutesPerJobLimit
    spent: dict[OwnerKey, Spent] = {("assoc", 1): Spent(60.0)}
    group = limits_of(parent=Limits(grp_wall_min=1), spent=spent)
    assert group.run_out(ANN, ask(), 0.0) is None
    spent["assoc", 10] = Spent(60.0)
    assert group.run_out(ANN, ask(), 0.0) is not None


def test_the_qos_of_the_partition_comes_first() -> None:
    """What it sets counts; OverPartQOS turns that round; groups of both count."""
    gate = Qos(2, "gate", limits=Limits(max_tres_per_job={"cpu": 5}))
    wide = Qos(1, "normal", limits=Limits(max_tres_per_job={"cpu": 50}))
    inside = ask(qos="gate")
    quotas = limits_of(quality=wide, of_partition=gate)
    assert reason_of(quotas, measured=inside) is Reason.QOSMaxCpuPerJobLimit
    assert reason_of(quotas, measured=ask()) is None
    over = Qos(1, "normal", flags=("OverPartQOS",), limits=wide.limits)
    assert reason_of(limits_of(quality=over, of_partition=gate), measured=inside) is None
    roomy = Qos(2, "gate", limits=Limits(max_tres_per_job={"cpu": 50}))
    own = Limits(max_tres_per_job={"cpu": 5, "mem": 5})
    quotas = limits_of(own=own, of_partition=roomy)
    assert reason_of(quotas, measured=inside) is Reason.AssocMaxMemPerJob
    assert reason_of(quotas) is Reason.AssocMaxCpuPerJobLimit
    full = Qos(2, "gate", limits=Limits(grp_jobs=1))
    quotas = limits_of(quality=over, of_partition=full)
    quotas.took(waiting("bob"), inside)
    assert reason_of(quotas, measured=inside) is Reason.QOSGrpJobsLimit


def test_nodes_that_jobs_share_count_once() -> None:
    quotas = limits_of(parent=Limits(grp_tres={"node": 2}))
    quotas.took(ANN, ask(nodes=(4, 5)))
    assert reason_of(quotas, measured=ask(nodes=(4, 5))) is None
    assert reason_of(quotas, measured=ask(nodes=(5, 6))) is Reason.AssocGrpNodeLimit
    assert reason_of(quotas, measured=ask()) is None  # it may land on nodes in use


def test_factors_of_a_qos() -> None:
    """UsageFactor scales minutes; LimitFactor what associations may hold."""
    limits = Limits(grp_tres_run_mins={"cpu": 300})
    half = Qos(1, "normal", usage_factor_millionths=500_000, limits=limits)
    assert reason_of(limits_of(quality=half)) is None
    double = Qos(1, "normal", limit_factor_millionths=2_000_000)
    tight = Limits(grp_tres={"cpu": 5})
    assert reason_of(limits_of(parent=tight)) is Reason.AssocGrpCpuLimit
    assert reason_of(limits_of(parent=tight, quality=double)) is None


def test_jobs_that_may_be_promised_room() -> None:
    """Not with NoReserve, nor with a priority below MinPrioThreshold."""
    assert limits_of().may_reserve(ANN, MAIN, 5)
    assert not limits_of(quality=Qos(1, "normal", flags=("NoReserve",))).may_reserve(ANN, MAIN, 5)
    least = limits_of(own=Limits(min_priority=10))
    assert not least.may_reserve(ANN, MAIN, 9)
    assert least.may_reserve(ANN, MAIN, 10)


def test_several_starts_at_once_are_judged_as_a_sum() -> None:
    """And nothing is counted by asking."""
    quotas = limits_of(parent=Limits(grp_tres={"cpu": 25}))
    for _ in range(2):
        assert quotas.may_start_all([(ANN, ask()), (ANN, ask())]) is None
    wait = quotas.may_start_all([(ANN, ask())] * 3)
    assert wait is not None
    assert wait.reason is Reason.AssocGrpCpuLimit


def test_usage_fades() -> None:
    """Half is left after a half-life, all where it is not to fade."""
    ledger = Ledger(half_life_s=1000)
    ledger.put(("qos", "normal"), START_US, Spent(100.0, {"cpu": 200.0}))
    later_us = START_US + 1000 * 1_000_000
    faded = ledger.of(("qos", "normal"), later_us)
    assert faded.wall_s == pytest.approx(50, rel=0.01)
    assert faded.tres_s["cpu"] == pytest.approx(100, rel=0.01)
    assert ledger.of(("qos", "normal"), later_us, fades=False).wall_s == 100
    assert ledger.of(("qos", "other"), later_us).wall_s == 0


def test_the_first_seconds_of_a_long_run_have_faded_most() -> None:
    """A run counts as if each of its seconds had been charged on its own."""
    ledger = Ledger(half_life_s=1000)
    kept = 1 - 0.693 / 1000
    each = sum(kept**age for age in range(5000))
    assert ledger.lasting_s(5000) == pytest.approx(each)
    assert ledger.lasting_s(5000, fades=False) == 5000
    assert Ledger(half_life_s=0).lasting_s(5000) == 5000
    ledger.add(("qos", "normal"), START_US, 5000, {"cpu": 2}, factor=3.0)
    spent = ledger.of(("qos", "normal"), START_US)
    assert (spent.wall_s, spent.tres_s["cpu"]) == (pytest.approx(3 * each), pytest.approx(6 * each))


@settings(max_examples=drawn(60), deadline=None)
@given_by(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["ann", "bob"])), max_size=12),
    st.integers(1, 40),
    st.integers(1, 20),
    st.integers(1, 4),
)
def test_no_limit_is_ever_exceeded(
    jobs: list[tuple[int, str]], most: int, own: int, count: int
) -> None:
    """All sums stay within the limits, whatever jobs start one after the other."""
    quality = Qos(1, "normal", limits=Limits(max_tres_per_user={"cpu": own}, max_jobs=count))
    quotas = limits_of(parent=Limits(grp_tres={"cpu": most}), quality=quality)
    running: dict[str, list[int]] = {"ann": [], "bob": []}
    users = {"ann": ANN, "bob": waiting("bob")}
    for cpus, user in jobs:
        measured = Ask({"cpu": cpus, "node": 1}, MAIN, 60)
        fits = sum(running["ann"] + running["bob"]) + cpus <= most
        fits = fits and sum(running[user]) + cpus <= own and len(running[user]) < count
        assert (quotas.may_start(users[user], measured) is None) is fits
        if fits:
            quotas.took(users[user], measured)
            running[user].append(cpus)


def test_forked_limits_count_on_their_own() -> None:
    """Each copy adds and subtracts without the other."""
    quotas = limits_of(own=Limits(max_jobs=2, grp_tres={"node": 9}))
    ask = Ask({"cpu": 1, "node": 1}, None, 60, on(7))
    before = quotas.took(ANN, ask)
    fork = quotas.fork()
    fork.took(ANN, ask)
    assert fork.may_start(ANN, ask) is not None
    assert quotas.may_start(ANN, ask) is None
    quotas.left(before)
    (counter,) = [key for key, used in fork.used().items() if used.jobs == 2 and key[0] == "assoc"][
        :1
    ]
    assert quotas.used()[counter].jobs == 0
    assert quotas.used()[counter].node_ids == {}
    assert fork.used()[counter].node_ids == {7: 2}


def test_which_nodes_jobs_have_is_counted_where_a_limit_is_on_them() -> None:
    """Elsewhere a table of the nodes of a large cluster for each counter would be for nothing."""
    quotas = limits_of(own=Limits(grp_tres={"node": 2}), parent=Limits(grp_tres={"cpu": 900}))
    quotas.took(ANN, ask(nodes=(4, 5)))
    known = {counter: used.node_ids for counter, used in quotas.used().items()}
    assert known["assoc", 11] == {4: 1, 5: 1}
    assert not any(nodes for counter, nodes in known.items() if counter != ("assoc", 11))
    every = Quotas({11: Association(11, "physics", "ann")}, {}, counts_nodes=True)
    every.took(ANN, ask(nodes=(4, 5)))
    assert [used.node_ids for used in every.used().values()] == [{4: 1, 5: 1}]


def test_a_run_without_a_limit_counts_for_a_year() -> None:
    """`sshare -l` shows it; as in Slurm no such job starts under a limit of TRES-minutes."""
    quotas = limits_of()
    quotas.took(ANN, ask(INFINITE))
    assert quotas.used()["assoc", 10].run_min["cpu"] == AMOUNTS["cpu"] * 365 * 24 * 60
    limited = limits_of(parent=Limits(grp_tres_run_mins={"cpu": 10**9}))
    assert reason_of(limited, measured=ask(INFINITE)) is Reason.AssocGrpCPURunMinutesLimit
