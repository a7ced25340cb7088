"""srun's steps: their creation, their start on nodes, their streams and signals, their end."""
