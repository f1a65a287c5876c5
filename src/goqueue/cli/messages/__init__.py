"""Messages in and out of a terminal."""
