from imports.text import lines_of


def names(data):
    """The names in a file of the northern supplier, who writes Latin-1."""
    return lines_of(data, "latin-1")
