"""Differential privacy: the noise the servers add to counts, and what it is worth."""
