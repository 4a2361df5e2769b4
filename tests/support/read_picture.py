#!/usr/bin/python3
"""Tells what Pillow sees in a picture, as JSON: read_picture.py FILE RGB_FILE.

The pixels go into RGB_FILE, interleaved 8-bit RGB rows.
"""

import json
import sys

from PIL import Image

EXIF_DIRECTORY = 0x8769
USER_COMMENT = 0x9286
SOFTWARE = 0x0131
UNICODE = b"UNICODE\0"


def texts_of(image):
    """Texts of a PNG by key; of the others UserComment and Software."""
    texts = dict(getattr(image, "text", {}))
    exif = image.getexif()
    comment = exif.get_ifd(EXIF_DIRECTORY).get(USER_COMMENT)
    if comment is not None:
        assert comment.startswith(UNICODE), comment[:8]
        texts["UserComment"] = comment[len(UNICODE):].decode("utf-16-be")
    if SOFTWARE in exif:
        texts["Software"] = exif[SOFTWARE]
    return texts


def main():
    with Image.open(sys.argv[1]) as image:
        image.load()
        with open(sys.argv[2], "wb") as pixels:
            pixels.write(image.convert("RGB").tobytes())
        print(json.dumps({
            "format": image.format,
            "mode": image.mode,
            "width": image.width,
            "height": image.height,
            "texts": texts_of(image),
        }))


main()
