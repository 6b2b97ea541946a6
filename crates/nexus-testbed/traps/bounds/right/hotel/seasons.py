from hotel.days import lies_between

HIGH_SEASON = ((6, 15), (9, 10))


def is_high_season(day):
    """Whether a (month, day) is in the high season."""
    return lies_between(day, *HIGH_SEASON)
