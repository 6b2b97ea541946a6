from hotel.days import lies_between


def is_occupied(day, arrival, departure):
    """Whether a room is taken in the night that begins on this day."""
    return lies_between(day, arrival, departure, with_last=False)


def nights(days, arrival, departure):
    return sum(is_occupied(day, arrival, departure) for day in days)
