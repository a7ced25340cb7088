"""What sacct, sstat and sacctmgr ask slurmdbd, and how they show it."""
