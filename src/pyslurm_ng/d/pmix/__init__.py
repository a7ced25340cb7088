"""The PMIx server of one step on one node: a process beside its supervisor, with libpmix."""
