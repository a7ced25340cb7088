"""What a job asks for in one partition, read once for all equal requests, and why it waits."""
