# GCM (Meta): each of its collectors of queue, nodes, accounting and configuration, once, beside a job.
set -eu
number=$(sbatch --parsable -N 2 -J long --wrap 'sleep 300')
until [ "$(squeue -h -o %T -j "$number")" = RUNNING ]; do sleep 0.5; done
for name in slurm_job_monitor slurm_monitor sacct_running sacctmgr_qos sacctmgr_user scontrol scontrol_config; do
  gcm "$name" --sink stdout --once --log-folder . --cluster here >"$name.json" 2>"$name.txt" || { cat "$name".*; exit 1; }
done
python - "$number" <<'END'
import json
import sys

def records(name):
    return [record for line in open(f"{name}.json") for record in json.loads(line)]

number = sys.argv[1]
monitored = records("slurm_job_monitor")
nodes = {record["NODE_NAME"]: record for record in monitored if "NODE_NAME" in record}
assert sorted(nodes) == ["n1", "n2", "n3", "n4"] and nodes["n1"]["CPUS_TOTAL"] == 4, nodes
(job,) = [record for record in monitored if record.get("JOBID") == number]
assert (job["STATE"], job["NODES"], job["TRES_NODE_ALLOCATED"]) == ("RUNNING", 2, 2), job
(job,) = [record for record in records("sacct_running") if record["JobID"] == number]
assert (job["JobName"], job["AllocNodes"]) == ("long", 2), job
assert records("scontrol")[0]["TotalNodes"] == 4
assert records("sacctmgr_qos")[0]["sacctmgr_qos"]["Name"] == "normal"
assert "games" in {record["sacctmgr_user"]["User"] for record in records("sacctmgr_user")}
(counts,) = records("slurm_monitor")
assert (counts["nodes_total"], counts["total_cpus_avail"]) == (4, 16), counts
END
scancel "$number"
echo "GCM $(python -c 'import importlib.metadata as m; print(m.version("gpucm"))') ok"
