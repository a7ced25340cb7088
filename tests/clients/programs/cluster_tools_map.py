"""cluster_tools: calls as an array, one of them failing."""

from importlib.metadata import version

import cluster_tools


def square(n):
    if n == 3:
        raise ValueError("on purpose")
    return n * n


if __name__ == "__main__":
    with cluster_tools.get_executor(
        "slurm", debug=False, keep_logs=True, job_resources={"mem": "300M", "partition": "debug"}
    ) as executor:
        calls = executor.map_to_futures(square, list(range(4)))
        assert [call.result() for call in calls[:3]] == [0, 1, 4]
        assert "on purpose" in str(calls[3].exception())
    print("cluster_tools", version("cluster_tools"), "ok")
