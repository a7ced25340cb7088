"""The meter: the process of a node that asks GPUs and power sensors, which may hang or be slow."""
