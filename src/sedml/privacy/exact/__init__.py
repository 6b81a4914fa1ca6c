"""Exact accounting."""
