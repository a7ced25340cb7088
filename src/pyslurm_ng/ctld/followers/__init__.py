"""What looks at every event, or at the journal, and keeps something of its own."""
