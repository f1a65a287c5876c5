"""Jobs: what operators of a broker do with a lot of data. Each is a function, and a command."""
