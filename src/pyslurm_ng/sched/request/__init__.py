"""What jobs ask for, read once: needs, features, sharing, heterogeneous parts."""
