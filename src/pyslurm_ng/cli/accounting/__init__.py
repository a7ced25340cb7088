"""What sacct, sstat and sacctmgr ask of slurmdbd, and how they show the answers."""
