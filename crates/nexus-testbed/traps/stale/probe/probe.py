from itertools import product

from shop.prices import quote

for item, quantity, currency, customer in product(["bolt", "nut"], [1, 99, 100], ["EUR", "USD"], ["retail", "trade"]):
    print(item, quantity, currency, customer, quote(item, quantity, currency, customer))
