"""``bayesfield``, and ``python -m bayesfield``: light, so that Ctrl-C is heard while all the rest is imported."""

import sys


def main() -> None:
    """The command line (bayesfield.cli), whose modules take seconds to import."""
    try:
        from bayesfield.cli.ending import main as command

        command()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("interrupted; nothing was written\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
