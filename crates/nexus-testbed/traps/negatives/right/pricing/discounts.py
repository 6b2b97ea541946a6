from pricing.amounts import normalize


def discounted(price, discount):
    return normalize(price - discount, floor=0.0)
