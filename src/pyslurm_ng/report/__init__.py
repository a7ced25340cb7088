"""`pyslurm-ng report`: what a cluster did in a month, as one HTML file."""
