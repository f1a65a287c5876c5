"""A node of a cluster as processes: a small supervisor with two children, etcd and the broker."""
