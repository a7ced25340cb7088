"""How each event changes the Cluster, a file for each subject. See `model.apply`."""
