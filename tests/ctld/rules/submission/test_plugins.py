"""JobSubmitPlugins that are built in, against what Slurm 22.05 answered with them."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno
from tests.world.site import Site


def test_a_time_limit_may_be_required() -> None:
    """The partition's default does not count: the user has to say it."""
    room = Site("JobSubmitPlugins=require_timelimit")
    assert room.refused() == Errno.ESLURM_MISSING_TIME_LIMIT
    assert room.job(time_limit_min=5).time_limit_min == 5


def test_a_job_may_go_to_all_partitions() -> None:
    """Unless it names one; the partition of the highest tier comes first."""
    room = Site("JobSubmitPlugins=all_partitions")
    assert room.job(time_limit_min=5).partition == "debug,main,gpu"
    assert room.job(time_limit_min=5, partition="gpu").partition == "gpu"


def test_a_job_may_go_to_the_partition_of_the_highest_tier() -> None:
    """Unless it names one; whether it fits there does not matter."""
    room = Site("JobSubmitPlugins=partition")
    assert room.job(time_limit_min=5).partition == "debug"
    assert room.job(time_limit_min=5, nodes_min=4).partition == "debug"
    assert room.job(time_limit_min=5, partition="gpu").partition == "gpu"


def test_without_plugins_nothing_is_asked_or_changed() -> None:
    """JobSubmitPlugins=none is the default."""
    assert Site("JobSubmitPlugins=none").job().partition == "main"
