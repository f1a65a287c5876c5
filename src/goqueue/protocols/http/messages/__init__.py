"""Routes that publish, read, search and purge messages, and how a message looks as JSON."""
