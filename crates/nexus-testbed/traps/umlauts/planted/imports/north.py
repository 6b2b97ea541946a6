from imports.text import lines_of


def names(data):
    """The names in a file of the northern supplier."""
    return lines_of(data)
