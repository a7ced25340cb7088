#!/bin/bash
#SBATCH --ntasks=1
#SBATCH --time=5
#SBATCH --output=pipeline.out
#SBATCH --open-mode=append

echo "stage $STAGE"
[ "$STAGE" != "$BROKEN_STAGE" ] || exit 3
