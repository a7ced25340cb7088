"""Steps of running jobs and their ports."""
