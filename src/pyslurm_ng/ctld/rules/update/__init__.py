r"""What `scontrol update` changes: jobs, nodes, partitions."""
