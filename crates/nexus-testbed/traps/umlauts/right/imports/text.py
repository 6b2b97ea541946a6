def lines_of(data, encoding):
    """The lines of a supplier's file that are not empty."""
    return [line.strip() for line in data.decode(encoding).splitlines() if line.strip()]
