"""What operators do to a server as a whole: maintenance and webhooks, a file each."""
