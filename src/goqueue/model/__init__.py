"""The vocabulary: ids, errors and limits. Imports nothing of ours."""
