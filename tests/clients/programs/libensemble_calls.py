"""libEnsemble finds nodes and cores of its allocation and starts programs on them by srun."""

import os
import subprocess
from importlib.metadata import version
from pathlib import Path

Path("app.sh").write_text('#!/bin/sh\necho "$SLURM_PROCID" "$SLURM_NODEID"\n')
os.chmod("app.sh", 0o755)
Path("calc.py").write_text("""
import os
import numpy as np
from libensemble import Ensemble
from libensemble.executors import MPIExecutor
from libensemble.specs import ExitCriteria, GenSpecs, SimSpecs

def simulate(H, info, sim_specs, libE_info):
    task = libE_info["executor"].submit(app_name="app", num_procs=2, stdout="ranks.txt")
    task.wait(timeout=120)
    out = np.zeros(1, dtype=sim_specs["out"])
    out["ranks"] = open(os.path.join(task.workdir, "ranks.txt")).read().count("\\n")
    out["line"] = task.runline
    return out, info

def generate(H, info, gen_specs):
    out = np.zeros(4, dtype=gen_specs["out"])
    out["x"] = np.arange(4).reshape(4, 1)
    return out, info

if __name__ == "__main__":
    executor = MPIExecutor(custom_info={"mpi_runner": "srun"})
    executor.register_app(full_path=os.path.abspath("app.sh"), app_name="app")
    ensemble = Ensemble(parse_args=True, executor=executor)
    ensemble.libE_specs.gen_on_manager = ensemble.libE_specs.sim_dirs_make = True
    ensemble.libE_specs.platform_specs = {"mpi_runner": "srun"}
    ensemble.sim_specs = SimSpecs(sim_f=simulate, inputs=["x"],
                                  out=[("ranks", float), ("line", "U200")])
    ensemble.gen_specs = GenSpecs(gen_f=generate, out=[("x", float, (1,))])
    ensemble.exit_criteria = ExitCriteria(sim_max=4)
    H, _, flag = ensemble.run()
    lines = [line.split(" --ntasks")[0] for line in H["line"]]
    print("ranks", [int(ranks) for ranks in H["ranks"]], "nodes", sorted(set(lines)))
""")
Path("calc.sh").write_text("""#!/bin/bash
#SBATCH -N2 -n8 --mem-per-cpu=300 -o calc.out
python calc.py --comms local --nworkers 4
""")
done = subprocess.run(["sbatch", "-W", "calc.sh"], capture_output=True, text=True)
said = Path("calc.out").read_text()
assert done.returncode == 0 and "ranks [2, 2, 2, 2] nodes ['srun -w n" in said, said
print("libensemble", version("libensemble"), "ok")
