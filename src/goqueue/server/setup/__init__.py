"""Setting up a server that other machines may reach: `goqueue init --secure`."""
