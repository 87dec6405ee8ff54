"""Hosts a worker of Retort in the user's Python."""
