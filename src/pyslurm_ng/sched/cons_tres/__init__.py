"""Which nodes, cores and devices a job gets now, in the way of select/cons_tres."""
