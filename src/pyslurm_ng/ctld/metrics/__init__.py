"""Metrics of the controller for Prometheus, by HTTP on its own port."""
