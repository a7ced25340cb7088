"""What is asked of the user directory, where that may block."""
