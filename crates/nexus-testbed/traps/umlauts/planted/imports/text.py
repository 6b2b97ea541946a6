def lines_of(data):
    """The lines of a supplier's file that are not empty."""
    text = data.decode("utf-8", errors="replace")
    return [line.strip() for line in text.splitlines() if line.strip()]
