"""The controller's dealings with node daemons: orders and credentials out, reports in."""
