"""`python -m goqueue.cli`, where the command itself is not on the path."""

from goqueue.cli import main

main()
