from billing.fees import fee
from billing.tax import tax

for cents in range(0, 400, 5):
    print(cents, tax(cents, 10), tax(cents, 19), fee(cents))
print(tax(10**18 + 1, 100))
