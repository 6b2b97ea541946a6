from imports import north, south

print("north", ascii(north.names("K\u00f6ln\nNi\u00f1o\n".encode("latin-1"))))
print("south", ascii(south.names("Troms\u00f8\n\u20ac 5\n".encode())))
print("marked", ascii(south.names("\ufeffBergen\n".encode())))
try:
    print("damaged", ascii(south.names(b"Troms\xf8\n")))
except UnicodeDecodeError:
    print("damaged UnicodeDecodeError")
