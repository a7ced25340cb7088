"""Pydra (nipype): a task over four values and one that needs them, as jobs; one that fails."""

import importlib.metadata
import os

import pydra


@pydra.mark.task
def square(number):
    return number * number, os.environ["SLURM_JOB_ID"]


@pydra.mark.task
def add(results):
    return sum(number for number, _ in results), len({job for _, job in results})


@pydra.mark.task
def fail(number):
    raise ValueError(f"no {number}")


def run(task):
    """Run a task or a workflow by jobs, two minutes each at most."""
    with pydra.Submitter(plugin="slurm", sbatch_args="--time=2 --mem=300") as submitter:
        submitter(task)
    return task.result()


def error_of(task):
    """Return what a task raises: Pydra raises Exception itself."""
    try:
        run(task)
    except Exception as error:  # noqa: BLE001
        return error
    return None


if __name__ == "__main__":
    flow = pydra.Workflow(name="flow", input_spec=["numbers"], cache_dir=os.getcwd())
    flow.inputs.numbers = [1, 2, 3, 4]
    flow.add(square(name="square").split("number", number=flow.lzin.numbers).combine("number"))
    flow.add(add(name="total", results=flow.square.lzout.out))
    flow.set_output([("sum", flow.total.lzout.out)])
    assert run(flow).output.sum == (30, 4), flow.result()
    error = error_of(fail(name="fail", number=7, cache_dir=os.getcwd()))
    assert "no 7" in str(error), error
    print("pydra", importlib.metadata.version("pydra"), "ok")
