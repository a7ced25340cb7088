"""What sacctmgr changes: accounts, users, associations, QOS, clusters, resources."""
