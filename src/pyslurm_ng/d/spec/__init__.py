"""What a job and its steps are given on this node: CPUs, memory, devices, environment, programs."""
