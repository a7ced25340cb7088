"""Rules: pure functions `(cluster, request, context) -> Decision | Reject`. Rules decide."""
