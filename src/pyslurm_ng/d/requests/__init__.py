"""What others ask of this node: controllers, srun and the commands."""
