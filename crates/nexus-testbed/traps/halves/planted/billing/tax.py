from billing.amounts import percentage


def tax(cents, percent):
    """The tax on an amount, in whole cents."""
    return percentage(cents, percent)
