"""`python -m hyperplace` is the command, also under torchrun."""

from hyperplace.cli.main import main

main()
