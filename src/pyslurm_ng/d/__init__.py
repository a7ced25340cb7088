"""slurmd and the step supervisor."""
