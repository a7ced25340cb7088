"""Nipype: a graph of functions by its SLURM plugin and as jobs that depend on each other."""

from importlib.metadata import version
from pathlib import Path

from nipype import Function, MapNode, Node, Workflow


def square(x):
    return x * x


def total(xs, name):
    from pathlib import Path

    Path(name).write_text(str(sum(xs)))


def flow(name, result):
    made = Workflow(name=name, base_dir=str(Path.cwd() / "work"))
    squares = MapNode(Function(["x"], ["out"], square), iterfield=["x"], name="squares")
    squares.inputs.x = [1, 2, 3]
    last = Node(Function(["xs", "name"], [], total), name="last")
    last.inputs.name = str(result)
    made.connect(squares, "out", last, "xs")
    return made


arguments = {"sbatch_args": "--mem=300 -t 2", "max_jobs": 4, "poll_interval": 1}
first = Path("first.txt").absolute()
flow("one", first).run(plugin="SLURM", plugin_args=arguments)
assert first.read_text() == "14"
second = Path("second.txt").absolute()
flow("two", second).run(
    plugin="SLURMGraph",
    plugin_args={"sbatch_args": "--mem=300 -W", "dont_resubmit_completed_jobs": False},
)
assert second.read_text() == "14"
print("nipype", version("nipype"), "ok")
