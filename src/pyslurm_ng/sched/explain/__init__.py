"""Why jobs wait, until when, and what would start them sooner."""
