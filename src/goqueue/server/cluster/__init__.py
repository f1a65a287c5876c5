"""What makes a node one of a cluster: who it is, that it runs, whom it hears, who decides."""
