"""One colour and one character per part, the same in the terminal and in figures."""

import string
from colorsys import hls_to_rgb

# Tableau's ten, ordered so that neighbours differ for colour-blind readers too.
FEW = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1",
    "#edc948", "#76b7b2", "#9c755f", "#ff9da7", "#86807e",
)  # fmt: skip
MARKERS = "osD^vP*X<>"
CHARACTERS = string.digits + string.ascii_lowercase + string.ascii_uppercase


def part_color(part: int, num_parts: int) -> str:
    """Return #rrggbb: distinct colours for up to ten parts, a rainbow in steps of lightness for more."""
    if num_parts <= len(FEW):
        return FEW[part]
    rgb = hls_to_rgb(0.85 * part / num_parts, (0.40, 0.66, 0.53)[part % 3], 0.60)
    return "#" + "".join(f"{round(255 * value):02x}" for value in rgb)


def text_color(color: str) -> str:
    """Return black or white, whichever has more contrast to the colour: 4.5 at least, as WCAG counts it."""
    bright = _luminance(color)
    return "#000000" if (bright + 0.05) / 0.05 > 1.05 / (bright + 0.05) else "#ffffff"


def _luminance(color: str) -> float:
    """Return how bright a colour is, 0 .. 1."""
    shares = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def part_character(part: int) -> str:
    """Return 0-9, a-z, A-Z, and from part 62 on the same again."""
    return CHARACTERS[part % len(CHARACTERS)]


def character_key(num_parts: int) -> str:
    """Say in a line which character is which part; nothing up to ten parts, where it is plain."""
    if num_parts <= 10:
        return ""
    words = [f"{name} from part {low}" for name, low in (("a-z", 10), ("A-Z", 36)) if low < num_parts]
    if num_parts > len(CHARACTERS):
        words.append(f"the same characters again from part {len(CHARACTERS)}, so parts are listed too")
    return "0-9 are parts 0-9, " + ", ".join(words)


def lightened(color: str, share: float) -> str:
    """Return the colour mixed with white; a share of 1 is white."""
    mixed = (round(int(color[i : i + 2], 16) * (1 - share) + 255 * share) for i in (1, 3, 5))
    return "#" + "".join(f"{value:02x}" for value in mixed)
