"""Producer ids and sequences: what makes a publish happen once however often it is sent."""
