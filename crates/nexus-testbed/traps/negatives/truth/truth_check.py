from pricing.discounts import discounted
from pricing.refunds import balance

CASES = [(1.5, 8.75), (0.25, 1), (3, 1.75)]


def written(amount):
    return f"{amount:g}"


print("discounted", *(written(discounted(*case)) for case in CASES))
print("balance", *(written(balance(*case)) for case in CASES))
