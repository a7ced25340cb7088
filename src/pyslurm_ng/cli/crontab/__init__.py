"""What scrontab reads in a crontab, and how it is edited."""
