"""The core: the cluster as a value, with events as the only way to change it. Pure."""
