"""Schema changes: numbered modules, forward only, each safe to run again.

A migration may be killed at any statement (MySQL commits each DDL statement by itself), so every
migration checks before it changes. The number is recorded after the last statement; a store with a
higher number than this program knows is refused.
"""

from collections.abc import Callable

import sqlalchemy as sa

from pyslurm_ng.dbd.migrations import (
    m0001_initial,
    m0002_partition_memory,
    m0003_resources,
    m0004_resized_jobs,
    m0005_problem_rows,
    m0006_sluid_index,
    m0007_usage,
    m0008_reservations,
    m0009_purge,
    m0010_wckeys,
    m0011_usage_resets,
    m0012_window_index,
    m0013_node_instances,
    m0014_job_spans,
    m0015_federations,
    m0016_usage_index,
)

MIGRATIONS: tuple[tuple[int, Callable[[sa.Connection], None]], ...] = (
    (1, m0001_initial.upgrade),
    (2, m0002_partition_memory.upgrade),
    (3, m0003_resources.upgrade),
    (4, m0004_resized_jobs.upgrade),
    (5, m0005_problem_rows.upgrade),
    (6, m0006_sluid_index.upgrade),
    (7, m0007_usage.upgrade),
    (8, m0008_reservations.upgrade),
    (9, m0009_purge.upgrade),
    (10, m0010_wckeys.upgrade),
    (11, m0011_usage_resets.upgrade),
    (12, m0012_window_index.upgrade),
    (13, m0013_node_instances.upgrade),
    (14, m0014_job_spans.upgrade),
    (15, m0015_federations.upgrade),
    (16, m0016_usage_index.upgrade),
)
LATEST = MIGRATIONS[-1][0]
