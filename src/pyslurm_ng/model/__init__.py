"""The core: the cluster as a value, events as the only way it changes. Pure."""
