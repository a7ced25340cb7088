#!/bin/bash
#SBATCH --job-name=squares
#SBATCH --array=1-100%8
#SBATCH --ntasks=1
#SBATCH --time=5
#SBATCH --output=squares/%A_%a.out

echo "$((SLURM_ARRAY_TASK_ID * SLURM_ARRAY_TASK_ID))"
