"""Boolean circuits, to be garbled: their gates, and numbers in them."""
