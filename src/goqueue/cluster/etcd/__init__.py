"""The metadata store of a cluster: etcd, over its JSON gateway."""
