def tax(cents, percent):
    """The tax on an amount, in whole cents."""
    return (cents * percent + 50) // 100
