"""What `goqueue debug bundle` collects for a person who looks at a problem from afar."""
