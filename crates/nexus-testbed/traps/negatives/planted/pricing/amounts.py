def normalize(amount):
    return max(0.0, round(amount, 2))
