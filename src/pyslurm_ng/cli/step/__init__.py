"""srun at work: a step asked for, started on its nodes, its streams and signals, its end."""
