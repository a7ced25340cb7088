"""What squeue, sinfo, sdiag and `scontrol show` print with: formats, columns, JSON and YAML."""
