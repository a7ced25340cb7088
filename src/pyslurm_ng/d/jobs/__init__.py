"""What the core wants done for jobs: prologs, launches, signals, epilogs."""
