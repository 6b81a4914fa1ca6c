"""Printed digits: images rendered on the spot from the fonts that come with matplotlib, so nothing is downloaded.

Every image is a digit in one of 21 faces, turned, stretched, slanted and shifted at random, in ink of random strength
on noisy paper. They are made up, not collected: nobody's data, and as many as one likes. Faces that matplotlib may
add later are not used, so that a seed gives the same images.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError
from sedml.extras import explain_missing

Images: TypeAlias = npt.NDArray[np.float32]
Labels: TypeAlias = npt.NDArray[np.int64]

FACES = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
    *("cmb10", "cmr10", "cmss10", "cmti10", "cmtt10"),
)
"""The faces, by the names of their files."""

_PIXELS = 16
_SIDE, _HEIGHT = 48, 36  # of a digit before it is distorted: its square, and how much of it the digit fills
_POINTS = 200  # of the type that is scaled down to it
_TURN, _STRETCH, _SLANT, _SHIFT = np.deg2rad(7), 0.07, 0.07, 0.05  # the most of each
_FAINTEST, _PAPER_NOISE = 0.6, 0.06
_AT_ONCE = 4096  # images, to bound the memory


def printed_digits(count: int, rng: np.random.Generator) -> tuple[Images, Labels]:
    """That many images float32[count, 16, 16, 1] in [0, 1], ink is 1, and the digits on them int64[count]."""
    glyphs = _glyphs()
    labels = rng.integers(10, size=count)
    faces = rng.integers(len(FACES), size=count)
    pieces = [
        _distorted(glyphs[faces[start : start + _AT_ONCE], labels[start : start + _AT_ONCE]], rng)
        for start in range(0, count, _AT_ONCE)
    ]
    return np.concatenate(pieces)[..., np.newaxis], labels


def _distorted(glyphs: Images, rng: np.random.Generator) -> Images:
    """Glyphs float32[n, 48, 48] as images float32[n, 16, 16]: each pixel looks up where it came from."""
    count = len(glyphs)
    turn = rng.uniform(-_TURN, _TURN, count)
    stretch = np.exp(rng.uniform(-_STRETCH, _STRETCH, (2, count)))
    slant = rng.uniform(-_SLANT, _SLANT, count)
    shift = rng.uniform(-_SHIFT, _SHIFT, (2, count))
    cosine, sine = np.cos(turn), np.sin(turn)
    grid = (np.arange(_PIXELS) + 0.5) / _PIXELS * 2 - 1
    across, down = np.meshgrid(grid, grid)

    def source(along_x: npt.NDArray[Any], along_y: npt.NDArray[Any], offset: npt.NDArray[Any]) -> Images:
        place = along_x[:, None, None] * across + along_y[:, None, None] * down + offset[:, None, None]
        return np.asarray(np.clip((place + 1) / 2 * _SIDE - 0.5, 0, _SIDE - 1.001), np.float32)

    x = source(cosine / stretch[0], (sine + slant * cosine) / stretch[0], shift[0])
    y = source(-sine / stretch[1], cosine / stretch[1], shift[1])
    left, top = x.astype(np.intp), y.astype(np.intp)
    x, y = x - left, y - top
    flat, corner = glyphs.reshape(count, -1), top * _SIDE + left
    which = np.arange(count)[:, None, None]
    upper = (1 - x) * flat[which, corner] + x * flat[which, corner + 1]
    lower = (1 - x) * flat[which, corner + _SIDE] + x * flat[which, corner + _SIDE + 1]
    ink = rng.uniform(_FAINTEST, 1, count).astype(np.float32)[:, None, None]
    paper = rng.standard_normal(upper.shape, dtype=np.float32) * np.float32(_PAPER_NOISE)
    return np.asarray(np.clip(ink * ((1 - y) * upper + y * lower) + paper, 0, 1), np.float32)


def _glyphs() -> Images:
    """Every digit in every face, of the same height, in the middle of its square: float32[faces, 10, 48, 48]."""
    with explain_missing():
        matplotlib = importlib.import_module("matplotlib")
        face = importlib.import_module("matplotlib.ft2font").FT2Font
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    try:
        fonts = [face(str(folder / f"{name}.ttf")) for name in FACES]
    except OSError as error:
        what = f"The fonts of matplotlib are not in {folder}."
        raise FileFormatError(what, "Install matplotlib from PyPI again, or use the data set `digits`.") from error
    return np.stack([[_glyph(font, digit) for digit in "0123456789"] for font in fonts])


def _glyph(font: Any, digit: str) -> Images:  # noqa: ANN401 - matplotlib's own type
    font.set_size(_POINTS, 72)
    font.set_text(digit, 0.0)
    font.draw_glyphs_to_bitmap(antialiased=True)
    drawn = np.asarray(font.get_image(), np.float32) / 255
    rows, columns = (np.flatnonzero(drawn.any(axis=axis)) for axis in (1, 0))
    drawn = drawn[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    width = min(_HEIGHT, round(_HEIGHT * drawn.shape[1] / drawn.shape[0]))
    small = _averages(drawn.shape[0], _HEIGHT) @ drawn @ _averages(drawn.shape[1], width).T
    square = np.zeros((_SIDE, _SIDE), np.float32)
    top, left = (_SIDE - _HEIGHT) // 2, (_SIDE - width) // 2
    square[top : top + _HEIGHT, left : left + width] = small
    # A pixel of an image covers three of these: blurred as much, looking up one point sees them all.
    blur = (np.eye(_SIDE, k=-1) + np.eye(_SIDE) + np.eye(_SIDE, k=1)) / 3
    return np.asarray(blur @ square @ blur, np.float32)


def _averages(old: int, new: int) -> Images:
    """The matrix [new, old] that scales a row of pixels down by averaging."""
    edges = np.linspace(0, old, new + 1)[:, None]
    pixels = np.arange(old)
    covered = np.minimum(pixels + 1, edges[1:]) - np.maximum(pixels, edges[:-1])
    return np.asarray(np.clip(covered, 0, None) * new / old, np.float32)
