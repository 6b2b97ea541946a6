def names(data):
    """The names in a file of the northern supplier, who writes Latin-1."""
    return [line.strip() for line in data.decode("latin-1").splitlines() if line.strip()]
