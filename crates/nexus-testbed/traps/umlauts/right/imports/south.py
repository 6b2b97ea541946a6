from imports.text import lines_of


def names(data):
    """The names in a file of the southern supplier, who writes UTF-8 and a byte order mark now and then."""
    return lines_of(data, "utf-8-sig")
