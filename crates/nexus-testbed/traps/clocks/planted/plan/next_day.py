DAY = 24 * 3600


def a_day_after(moment):
    """The same time on the next day."""
    return moment + DAY
