def lies_between(day, first, last):
    """Whether a (month, day) lies between two others."""
    return first <= day <= last
