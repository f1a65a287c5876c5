"""etcd as a program: finding it, installing it, the flags it runs with."""
