"""The host of a node daemon: cores, devices, control groups and load, as the kernel has them."""
