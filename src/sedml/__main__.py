"""`python -m sedml`: the same as the command `sedml`."""

from sedml.cli import main

if __name__ == "__main__":
    main()
