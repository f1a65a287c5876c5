"""What is measured, how, and against what. `goqueue bench` runs it; see README.md beside this."""
