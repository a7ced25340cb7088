"""What holds for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests.world.examples import DRAWS_ALL, drawn
from tests.world.rewriting import rewrite_all
from tests.world.sharing_out import FilesApart

# Commands of tests leave no command server behind; test_command_server.py starts its own.
os.environ["PYSLURM_COMMAND_SERVER"] = "0"

# A busy machine is no failure: nothing here asserts on wall-clock time. `make test` tries the same
# examples in each run, a fifth of them, so that a failure is of what changed; `make soak-random`
# draws all, and others each time.
settings.register_profile(
    "busy_machine",
    deadline=None,
    max_examples=drawn(100),
    derandomize=not DRAWS_ALL,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("busy_machine")
if not DRAWS_ALL:
    # Some values would be drawn from the constants of all our code: other ones after each change of
    # it, and each process of a run would read all of it first.
    providers._get_local_constants = Constants


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesApart | None:
    """Distribute tests as above where `--dist loadfile` is asked for."""
    return FilesApart(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Leave the processes of a run less to do before their first test."""
    rewrite_all(config, Path(__file__).parent)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep sixteen thousand collected tests out of each later round of the garbage collector."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
