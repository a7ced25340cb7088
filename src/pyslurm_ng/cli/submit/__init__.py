"""What sbatch, salloc and srun share: their options, and their submissions."""
