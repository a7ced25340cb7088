"""What answers each path, by subject."""
