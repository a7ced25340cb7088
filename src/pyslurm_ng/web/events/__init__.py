"""Events as server-sent events and webhooks: one subscription for all who may hear the same."""
