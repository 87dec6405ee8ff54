"""Writes webp/: WebP files, and next to each a PNG of the pixels that Pillow decodes.

python3 -m pip install pillow==13.0.0 && python3 tests/golden/webp.py tests/golden/webp
"""
import pathlib
import random
import sys

from PIL import Image, ImageFilter

folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)


def picture(mode, width, height, seed):
    """Smooth colors with some grain."""
    numbers = random.Random(seed)
    grain = Image.frombytes(mode, (width, height), numbers.randbytes(width * height * len(mode)))
    return grain.filter(ImageFilter.GaussianBlur(2))


def save(name, image, **options):
    image.save(folder / f"{name}.webp", **options)
    with Image.open(folder / f"{name}.webp") as seen:
        seen.convert("RGB").save(folder / f"{name}.png", optimize=True)


photo = picture("RGB", 37, 23, 1)
clear = picture("RGBA", 18, 31, 2)
clear.putpixel((3, 4), (9, 200, 77, 0))
turned = Image.Exif()
turned[0x0112] = 6
save("lossy", photo, quality=60)
save("lossless", photo, lossless=True)
save("lossy_transparent", clear, quality=80)
save("lossless_transparent", clear, lossless=True, exact=True)
save("turned", picture("RGB", 20, 9, 3), lossless=True, exif=turned)
photo.save(folder / "animated.webp", save_all=True, append_images=[picture("RGB", 37, 23, 4)], duration=100, quality=10)
