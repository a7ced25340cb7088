"""Experimaestro: tasks as jobs by its Slurm launcher: three end, one fails."""

import contextlib
import os
import shutil
from importlib.metadata import version
from pathlib import Path

from experimaestro import Param, ResumableTask, experiment
from experimaestro.launchers.slurm import SlurmLauncher, SlurmOptions
from experimaestro.scheduler import JobState
from experimaestro.scheduler.experiment import FailedExperiment


class Square(ResumableTask):
    number: Param[int]

    def execute(self):
        if self.number == 7:
            raise ValueError("no 7")
        print(self.number**2, "left", self.remaining_time() > 60, flush=True)


if __name__ == "__main__":
    options = SlurmOptions(partition="debug", time="0:5:0", mem="500", cpus_per_task="1")
    folder = Path(shutil.which("sbatch")).parent
    launcher = SlurmLauncher(options=options, binpath=folder, interval=1)
    with experiment("work", "squares", port=-1, launcher=launcher) as xp:
        xp.setenv("PYTHONPATH", os.getcwd())
        tasks = [Square.C(number=number).submit() for number in (1, 2, 3)]
        failed = Square.C(number=7).submit()
        with contextlib.suppress(FailedExperiment):
            xp.wait()
        jobs = [task.__xpm__.job for task in tasks]
        assert all(job.state == JobState.DONE for job in jobs), [job.state for job in jobs]
        assert failed.__xpm__.job.state == JobState.ERROR, failed.__xpm__.job.state
        said = [job.stdout.read_text().split() for job in jobs]
        assert said == [["1", "left", "True"], ["4", "left", "True"], ["9", "left", "True"]], said
    print("experimaestro", version("experimaestro"), "ok")
