from billing.amounts import percentage

PERCENT = 2


def fee(cents):
    """The fee of a payment, in whole cents."""
    return percentage(cents, PERCENT)
