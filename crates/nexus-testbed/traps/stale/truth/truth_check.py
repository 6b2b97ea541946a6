from shop import prices

computed = []
compute = prices.compute


def counted(*arguments):
    computed.append(arguments)
    return compute(*arguments)


prices.compute = counted


def all_four():
    return [prices.quote("bolt", 10, currency, customer) for currency in ("EUR", "USD") for customer in ("retail", "trade")]


all_four()
print(*all_four())
for _ in range(3):
    bulk = [prices.quote("bolt", 100, customer=customer) for customer in ("retail", "trade")]
print("bulk", *bulk)
print("computed", len(computed))
