"""The quick answer about limits agrees with the close look at them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.assoc import Limits, Qos
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.measures import Ask
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.sched.limits.quotas import Quotas
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.sched.limits.limited_jobs import ANN, limits_of, waiting
from tests.sched.whole_nodes import WHOLE_NODES

COUNTS = st.one_of(st.just(INFINITE), st.integers(0, 4))
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "node", "mem", "gres/gpu"]),
    st.one_of(st.just(INFINITE), st.integers(0, 8)),
)
LIMITS = st.builds(
    Limits,
    grp_jobs=COUNTS,
    grp_tres=AMOUNTS,
    grp_tres_run_mins=st.one_of(st.just({}), AMOUNTS),
    max_jobs=COUNTS,
    max_tres_per_job=AMOUNTS,
    max_tres_per_node=st.one_of(st.just({}), AMOUNTS),
    max_wall_min=st.sampled_from([INFINITE, 30, 60]),
    max_jobs_per_account=COUNTS,
    max_tres_per_user=AMOUNTS,
    max_tres_per_account=AMOUNTS,
    min_tres_per_job=st.one_of(st.just({}), AMOUNTS),
)
ASKS = st.builds(
    lambda cpus, nodes, gpus, limit_min: Ask(
        {"cpu": cpus, "node": nodes, "mem": 2, "gres/gpu": gpus}, None, limit_min
    ),
    st.integers(1, 4),
    st.integers(1, 2),
    st.integers(0, 2),
    st.sampled_from([20, 45, 90]),
)


@settings(deadline=None)
@given(LIMITS, LIMITS, LIMITS, st.lists(st.tuples(st.booleans(), ASKS), max_size=5), ASKS)
def test_headroom_agrees_with_the_limits(
    own: Limits, parent: Limits, of_qos: Limits, running: list[tuple[bool, Ask]], ask: Ask
) -> None:
    quotas = limits_of(own, parent, Qos(1, "normal", limits=of_qos))
    bob = waiting("bob")
    for is_ann, running_ask in running:
        quotas.is_clear(ANN, ask)  # what it keeps must follow what starts
        quotas.took(ANN if is_ann else bob, running_ask)
    closely = quotas.may_start_all([(ANN, ask)])
    assert quotas.may_start(ANN, ask) == closely
    assert closely is None or not quotas.is_clear(ANN, ask)


def test_users_far_from_their_limits_have_headroom() -> None:
    quotas = limits_of(own=Limits(max_jobs=2, grp_tres={"cpu": 100}))
    ask = Ask({"cpu": 10, "node": 1}, None, 60)
    assert quotas.is_clear(ANN, ask)
    quotas.took(ANN, ask)
    assert quotas.is_clear(ANN, ask)
    quotas.took(ANN, ask)
    assert not quotas.is_clear(ANN, ask)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 90)), min_size=1, max_size=20))
def test_limits_that_no_job_reaches_change_no_plan(jobs: list[tuple[int, int]]) -> None:
    conf = conf_of(WHOLE_NODES.replace("CPUs=2", "CPUs=8"))
    cluster = cluster_of(conf)
    for nodes, limit_min in jobs:
        request = JobRequest(nodes_min=nodes, nodes_max=nodes, ntasks=nodes, cpus_per_task=4)
        submit(cluster, request, time_limit_min=limit_min)
    view = snapshot(cluster, START_US)
    free = Planner()(view, policy(conf))
    wide = Quotas({}, {"normal": Qos(1, "normal", limits=Limits(grp_jobs=1000))})
    limited_plan = Planner()(replace(view, limits=wide), policy(conf))
    assert (limited_plan.starts, limited_plan.expected_start_us, limited_plan.waits) == (
        free.starts,
        free.expected_start_us,
        free.waits,
    )
