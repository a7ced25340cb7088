"""What daemons share as processes: background, log, options, hooks, process tree."""
