"""Pictures for people. Nothing here is imported by `sedml` itself, and matplotlib only when one is drawn."""
