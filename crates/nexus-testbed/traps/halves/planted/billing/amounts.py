def percentage(cents, percent):
    """So many percent of an amount, to the nearest cent."""
    return round(cents * percent / 100)
