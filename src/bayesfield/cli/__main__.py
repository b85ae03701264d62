"""``python -m bayesfield.cli``."""

from bayesfield.cli import main

if __name__ == "__main__":
    main()
