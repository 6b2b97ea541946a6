from service.pairs import read_pairs

DEFAULTS = {"retries": "3"}


def load(path):
    """The settings in a file of lines NAME=VALUE."""
    return read_pairs(path, DEFAULTS)
