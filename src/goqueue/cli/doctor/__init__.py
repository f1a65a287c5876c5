"""What `goqueue doctor` looks at: this machine, and the server that commands talk to."""
