"""How jobs end and begin again: ends, requeues, het jobs, runs lost with their nodes."""
