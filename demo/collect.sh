#!/bin/bash
#SBATCH --job-name=collect
#SBATCH --ntasks=1
#SBATCH --time=5
#SBATCH --output=collect.out

cat squares/*.out | awk '{ sum += $1; count += 1 } END { print count " results, sum " sum }'
