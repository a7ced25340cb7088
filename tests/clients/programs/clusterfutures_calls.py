"""Calls by clusterfutures, each as a job: four return, one raises, the job of one is cancelled."""

import os
import subprocess
import time
from importlib.metadata import version

import cfut


def square(number):
    return number * number, os.environ["SLURM_JOB_ID"]


def fail(number):
    raise ValueError(f"no {number}")


def error_of(future):
    try:
        future.result(timeout=120)
    except (cfut.RemoteException, cfut.JobDied) as error:
        return error
    return None


if __name__ == "__main__":
    with cfut.SlurmExecutor() as executor:
        calls = [executor.submit(square, number) for number in range(4)]
        results = [call.result(timeout=120) for call in calls]
        assert [result for result, _ in results] == [0, 1, 4, 9], results
        assert len({job for _, job in results}) == 4, results
        assert "no 7" in str(error_of(executor.submit(fail, 7)))
        name = ["#SBATCH --job-name=late"]
        late = executor.submit(time.sleep, 300, additional_setup_lines=name)
        subprocess.run(["scancel", "--name=late"], check=True)
        assert isinstance(error_of(late), cfut.JobDied)
    print("clusterfutures", version("clusterfutures"), "ok")
