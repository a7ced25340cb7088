"""What a job asks for in one partition, read once for all that ask alike, and why it waits."""
