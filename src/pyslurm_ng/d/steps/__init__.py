"""Steps as slurmd holds them: their supervisors, their ends, and the room that their files take."""
