"""The HTTP/1.1 server: sockets, connections, requests in, answers out."""
