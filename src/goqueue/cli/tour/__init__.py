"""`goqueue quickstart`: what it plays, and how."""
