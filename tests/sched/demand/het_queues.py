"""Random queues with heterogeneous jobs."""

from __future__ import annotations

from hypothesis import strategies as st

from pyslurm_ng.model.job import JobRequest

requests = st.builds(
    JobRequest,
    ntasks=st.sampled_from([0, 1, 3, 8, 20, 33]),
    cpus_per_task=st.sampled_from([0, 0, 2, 5]),
    nodes_min=st.sampled_from([0, 0, 1, 2, 3]),
    gpus_per_node=st.sampled_from(["", "", "", "1", "a100:2"]),
    constraint=st.sampled_from(["", "", "ib", "cpunode"]),
    mem_per_node_mib=st.sampled_from([0, 0, 20_000, 50_000]),
    licenses=st.sampled_from(["", "", "", "matlab:1", "matlab:2"]),
    partition=st.sampled_from(["main", "main", "gpu"]),
)

queues = st.lists(
    st.tuples(st.lists(requests, min_size=1, max_size=3), st.sampled_from([1, 5, 30])),
    min_size=1,
    max_size=8,
)
