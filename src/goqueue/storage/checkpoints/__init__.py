"""What lets the next start of a log begin where the last one ended."""
