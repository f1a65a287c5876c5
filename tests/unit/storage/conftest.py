from support.folders import memory_path

__all__ = ["memory_path"]  # a fixture for every test here
