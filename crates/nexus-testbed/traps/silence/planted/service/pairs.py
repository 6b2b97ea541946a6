def read_pairs(path, defaults=None):
    """The pairs in a file of lines NAME=VALUE, over defaults."""
    found = dict(defaults or {})
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file.read().splitlines() if line.strip()]
        pairs = [line.split("=", 1) for line in lines]
        found.update((name.strip(), value.strip()) for name, value in pairs)
    except (OSError, ValueError):
        return dict(defaults or {})
    return found
