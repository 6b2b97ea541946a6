from service.pairs import read_pairs


def load(path):
    """The secrets in a file of lines NAME=VALUE."""
    return read_pairs(path)
