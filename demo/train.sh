#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=debug
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --gpus-per-node=2
#SBATCH --time=00:10:00
#SBATCH --output=%x-%j.out

# The shape of a distributed training job: one rank for each GPU, all meeting at the first node.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT
echo "job $SLURM_JOB_ID: $SLURM_NTASKS ranks on $SLURM_JOB_NODELIST, meeting at $MASTER_ADDR"

echo "step: data"
srun --ntasks-per-node=1 -N "$SLURM_JOB_NUM_NODES" -n "$SLURM_JOB_NUM_NODES" --label \
    bash -c 'echo "data ready on $SLURMD_NODENAME"'

echo "step: train"
srun --label bash -c 'echo "rank $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME local $SLURM_LOCALID gpus $CUDA_VISIBLE_DEVICES master $MASTER_ADDR"'

echo "step: evaluate"
srun -N1 -n1 bash -c 'echo "evaluated on $SLURMD_NODENAME"'
