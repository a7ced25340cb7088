"""How a request becomes a job: defaults, places, limits, arrays."""
