"""`python -m sedml`: the same as the command `sedml`."""

from sedml.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
