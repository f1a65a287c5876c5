"""What goes over the network, in both directions; see README.md."""
