"""What sbatch, salloc and srun have in common: their options, and what they submit."""
