def read_pairs(path, defaults=None):
    """The pairs in a file of lines NAME=VALUE, over defaults. A line that is none is a ValueError."""
    found = dict(defaults or {})
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return found
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"{path}:{number}: not NAME=VALUE")
        found[name.strip()] = value.strip()
    return found
