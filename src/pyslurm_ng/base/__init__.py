"""What every part of the system shares; standard library only."""
