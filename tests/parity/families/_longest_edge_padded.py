"""What the families share that scale the longer edge to a number and pad the shorter one with the mean colour."""

SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "square": (384, 384),
    "enlarged": (100, 150),
    "exact_height": (384, 201),
    "exact_width": (202, 384),
    "one_off": (385, 384),
    "half": (128, 257),
    "half_tall": (768, 511),
    "wide": (97, 1000),
    "least_width": (1000, 30),
    "least_height": (7, 900),
    "one_row": (1, 700),
    "one_column": (700, 1),
    "vga": (480, 640),
}
