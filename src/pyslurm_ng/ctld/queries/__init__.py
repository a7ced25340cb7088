"""Answers to what commands ask: pure functions of the Cluster, the soft state and the request."""
