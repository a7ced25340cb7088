"""TensorFlow's SlurmClusterResolver: each task's role and the addresses of all, on 2 x 2 ranks."""

import json
import os
import subprocess
from importlib.metadata import version
from pathlib import Path

Path("task.py").write_text("""
import json
import os
import tensorflow as tf

jobs = {"ps": 1, "worker": 3}
resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
    jobs=jobs, port_base=8888, gpus_per_node=2, gpus_per_task=1, auto_set_gpu=False)
addresses = resolver.cluster_spec().as_dict()
print(json.dumps([os.environ["SLURM_PROCID"], *resolver.get_task_info(), addresses]))
""")
hide = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
words = ["srun", "-N2", "--ntasks-per-node=2", "--mem-per-cpu=900", "python", "task.py"]
done = subprocess.run(words, env=hide, capture_output=True, text=True)
assert done.returncode == 0, done.stderr
rows = sorted(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
assert [row[:3] for row in rows] == [
    ["0", "ps", 0], ["1", "worker", 0], ["2", "worker", 1], ["3", "worker", 2]
]  # fmt: skip
first, second = (row.rpartition(":")[0] for row in (rows[0][3]["ps"][0], rows[0][3]["worker"][2]))
assert rows[0][3] == {
    "ps": [f"{first}:8888"], "worker": [f"{first}:8889", f"{second}:8888", f"{second}:8889"]
}, rows  # fmt: skip
print("tensorflow", version("tensorflow-cpu"), "ok")
