"""The node's side of its controllers: registration, heartbeats, reports, and being cut off."""
