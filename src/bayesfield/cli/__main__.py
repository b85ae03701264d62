"""``python -m bayesfield.cli``."""

from bayesfield.cli.ending import main

if __name__ == "__main__":
    main()
