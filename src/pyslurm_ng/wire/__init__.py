"""The only place that touches sockets between processes."""
