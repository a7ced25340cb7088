"""How often the usage of a step's tasks is sampled (--acctg-freq, JobAcctGatherFrequency)."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, error_text
from pyslurm_ng.base.request_words import SAMPLING_S, samples_too_rarely, sampling_s
from pyslurm_ng.d.spec.node_setup import NodeSetup, SpecError, alloc_of
from pyslurm_ng.wire import node_messages as nm


def sampling(setup: NodeSetup, *asked: str) -> tuple[int, bool]:
    """Return how often usage is sampled in seconds (0: never) and whether it is counted."""
    conf = setup.conf
    if not conf.job_acct_gather_type or conf.job_acct_gather_type.endswith("/none"):
        return 0, False
    every = SAMPLING_S
    for words in (conf.job_acct_gather_frequency, *(text.split(",") for text in asked)):
        own = sampling_s(words)
        every = every if own is None else own
    return every, True


def check(setup: NodeSetup, credential: nm.JobCredential, freq: str) -> None:
    """Refuse to sample a step's memory less often than its limit is watched. Raises SpecError."""
    own = alloc_of(credential.step_nodes, credential.step_allocs, setup.node_name)
    if own is None or not own.mem_mib:
        return
    if samples_too_rarely(freq, setup.conf.job_acct_gather_frequency):
        raise SpecError(error_text(Errno.ESLURMD_INVALID_ACCT_FREQ))
