def normalize(amount, floor=None):
    amount = round(amount, 2)
    return amount if floor is None else max(floor, amount)
