"""From a YAML or a Python file to the description of a pipeline."""
