"""Old records: which they are, their way into files, and out of the database."""
