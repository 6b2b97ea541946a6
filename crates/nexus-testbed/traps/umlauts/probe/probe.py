from imports import north, south

SAMPLES = [b"Anna", "J\u00fcrgen".encode("latin-1"), "J\u00fcrgen".encode(), b"\xef\xbb\xbfAnna", b"\xff\xfeA"]

for number, sample in enumerate(SAMPLES):
    for module in (north, south):
        try:
            print(number, module.__name__, ascii(module.names(sample)))
        except Exception as error:
            print(number, module.__name__, type(error).__name__)
