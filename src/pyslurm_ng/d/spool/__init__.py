"""What lies in SlurmdSpoolDir: files of steps, batch scripts, and what a restart must know."""
