"""The pages that slurmrestd shows to people: made on the server, readable without scripts."""
