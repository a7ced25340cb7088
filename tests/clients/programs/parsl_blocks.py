"""Parsl: blocks of nodes scaled out and in, and what it reads of their states."""

import time

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider


@parsl.python_app
def double(x):
    import time

    time.sleep(0.2)
    return 2 * x


provider = SlurmProvider(
    "debug",
    nodes_per_block=2,
    init_blocks=0,
    min_blocks=0,
    max_blocks=2,
    walltime="00:05:00",
    exclusive=False,
    launcher=SrunLauncher(),
    cores_per_node=1,
)
executor = HighThroughputExecutor(
    label="slurm", address="127.0.0.1", max_workers_per_node=1, provider=provider
)
config = Config(executors=[executor], strategy="htex_auto_scale", max_idletime=2, strategy_period=1)
with parsl.load(config):
    assert [future.result() for future in [double(x) for x in range(20)]] == list(range(0, 40, 2))
    blocks = list(provider.resources)
    assert blocks
    deadline = time.time() + 60
    while time.time() < deadline:  # idle blocks are scaled in
        states = {job: status.state.name for job, status in executor.status().items()}
        if states and all(
            state in ("SCALED_IN", "CANCELLED", "COMPLETED") for state in states.values()
        ):
            break
        time.sleep(1)
    assert states and "FAILED" not in states.values() and "RUNNING" not in states.values(), states
print("parsl", parsl.__version__, "ok")
