"""Bugs that people reported, and ours."""
