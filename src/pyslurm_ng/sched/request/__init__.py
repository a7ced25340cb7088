"""The words of requests: needs, features, sharing, conditions on nodes."""
