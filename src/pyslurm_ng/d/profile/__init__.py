"""Profiles of steps: samples that a supervisor keeps, and the process that publishes them."""
