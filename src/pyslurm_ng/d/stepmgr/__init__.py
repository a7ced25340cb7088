"""Step managers: a node daemon gives the steps of jobs that begin on its node their shares."""
