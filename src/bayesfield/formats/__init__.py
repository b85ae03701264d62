"""Other tools' files, one module a format, independent of one another."""
