"""Tasks as decorated functions, and the processes that run them: `goqueue worker module:app`."""
