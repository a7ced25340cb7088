"""What waits: how many jobs a user may have, dependencies, age priority."""
