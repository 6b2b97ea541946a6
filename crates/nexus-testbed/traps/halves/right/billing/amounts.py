def percentage(cents, percent):
    """So many percent of an amount, to the nearest cent, half of one up."""
    return (cents * percent + 50) // 100
