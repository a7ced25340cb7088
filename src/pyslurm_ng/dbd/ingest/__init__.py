"""From the events of journals to the rows of accounting."""
