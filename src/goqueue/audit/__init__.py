"""Who did what, from where, and with which outcome; see README.md."""
