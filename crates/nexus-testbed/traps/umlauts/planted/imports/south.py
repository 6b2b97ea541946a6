from imports.text import lines_of


def names(data):
    """The names in a file of the southern supplier."""
    return lines_of(data)
