"""law (CERN): four branches of a workflow as jobs, one of which fails once and is sent again."""

import os
import subprocess
from importlib.metadata import version
from pathlib import Path

import law

law.contrib.load("slurm")
HERE = Path(__file__).resolve().parent


class Numbers(law.slurm.SlurmWorkflow, law.LocalWorkflow):
    def create_branch_map(self):
        return {number: number for number in range(4)}

    def slurm_output_directory(self):
        return law.LocalDirectoryTarget(f"{HERE}/jobs")

    def slurm_use_local_scheduler(self):
        return True

    def output(self):
        return law.LocalFileTarget(f"{HERE}/numbers/{self.branch}.txt")

    def run(self):
        tried = HERE / "tried"
        if self.branch == 2 and not tried.exists():
            tried.touch()
            raise RuntimeError("once")
        self.output().dump(f"{self.branch_data} {os.environ['SLURM_JOB_ID']}\n", formatter="text")


if __name__ == "__main__":
    module, configuration = Path(__file__).stem, HERE / "law.cfg"
    configuration.write_text(f"[modules]\n{module}\n\n[job]\njob_file_dir: {HERE}/files\n")
    os.environ.update(LAW_HOME=f"{HERE}/.law", LAW_CONFIG_FILE=str(configuration))
    os.environ["PYTHONPATH"] = str(HERE)
    words = ["law", "run", f"{module}.Numbers", "--workflow", "slurm", "--retries", "1"]
    words += ["--slurm-partition", "debug", "--poll-interval", "2sec", "--local-scheduler"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    made = [Path(f"numbers/{number}.txt").read_text().split() for number in range(4)]
    assert [number for number, _ in made] == ["0", "1", "2", "3"], made
    assert len({job for _, job in made}) == 4, made
    assert "retry: 1" in done.stdout, done.stdout
    print("law", version("law"), "ok")
