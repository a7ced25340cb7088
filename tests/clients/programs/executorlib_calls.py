"""executorlib with pysqa's queue adapter, and within one job with srun."""

from importlib.metadata import version

from executorlib import SlurmClusterExecutor


def add(a, b):
    return a + b


if __name__ == "__main__":
    # pysqa's template writes `#SBATCH --partition=` where none is named; Slurm refuses that, too.
    resources = {"cores": 1, "partition": "debug"}
    with SlurmClusterExecutor(resource_dict=resources, cache_directory="cache") as pool:
        assert pool.submit(add, 1, b=2).result(timeout=120) == 3
    print("executorlib", version("executorlib"), "pysqa", version("pysqa"), "ok")
