"""Property tests have no deadline: a busy machine is no reason to fail."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
