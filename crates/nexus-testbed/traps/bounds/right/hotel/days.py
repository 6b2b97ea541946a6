def lies_between(day, first, last, with_last=True):
    """Whether a (month, day) lies between two others."""
    return first <= day and (day <= last if with_last else day < last)
