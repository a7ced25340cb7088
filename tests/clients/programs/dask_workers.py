"""dask-jobqueue: workers as jobs, scaled up and down."""

import dask
import dask_jobqueue
from dask.distributed import Client
from dask_jobqueue import SLURMCluster

if __name__ == "__main__":
    dask.config.set({"distributed.comm.timeouts.connect": "60s"})
    cluster = SLURMCluster(
        queue="debug",
        account="science",
        cores=1,
        memory="600MB",
        walltime="00:05:00",
        interface="lo",
        log_directory="dask-logs",
        job_extra_directives=["--comment=dask"],
    )
    cluster.scale(jobs=2)
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        assert client.submit(sum, range(10)).result(timeout=60) == 45
        assert len(client.run(lambda: __import__("os").environ["SLURM_JOB_ID"])) == 2
        cluster.scale(jobs=0)
    cluster.close()
    print("dask-jobqueue", dask_jobqueue.__version__, "ok")
