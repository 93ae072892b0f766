"""`python -m rmt` is the command `rmt`."""

from rmt.cli.main import program

if __name__ == "__main__":
    program()
