def is_occupied(day, arrival, departure):
    """Whether a room is taken in the night that begins on this day."""
    return day >= arrival and day < departure


def nights(days, arrival, departure):
    return sum(is_occupied(day, arrival, departure) for day in days)
