PERCENT = 2


def fee(cents):
    """The fee of a payment, in whole cents."""
    return (cents * PERCENT + 50) // 100
