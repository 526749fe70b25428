"""`python -m gains_ode` is the command `gains`."""

from ._command import main

if __name__ == "__main__":
    main()
