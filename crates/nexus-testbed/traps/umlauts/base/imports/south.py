def names(data):
    """The names in a file of the southern supplier, who writes UTF-8 and a byte order mark now and then."""
    return [line.strip() for line in data.decode("utf-8-sig").splitlines() if line.strip()]
