"""Hosts a Retort worker in the user's Python."""
