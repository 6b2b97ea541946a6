from pricing.discounts import discounted
from pricing.refunds import balance

for first, second in [(10, 2.504), (2, 10.504), (0, 0)]:
    print(first, second, discounted(first, second), balance(first, second))
