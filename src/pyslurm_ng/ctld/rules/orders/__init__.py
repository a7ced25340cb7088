"""What users and operators tell jobs to do: cancel, hold, release, requeue, suspend, top."""
