"""sh5util's work on the HDF5 files of profiles."""
