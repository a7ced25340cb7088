"""What a pass is given and gives back: the records of jobs, the snapshot, the policy, the plan."""
