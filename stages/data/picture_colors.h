#pragma once

#include "stages/data/image.h"

namespace stages {

/// Colours changed in place, with the same bytes as Pillow's ImageEnhance and its HSV give; `factor` is at least 0, and
/// 1 changes nothing.

/// Each value times `factor`.
void change_brightness(Image& image, double factor);
/// Each value's distance from the image's mean grey times `factor`.
void change_contrast(Image& image, double factor);
/// Each pixel's distance from its grey times `factor`.
void change_saturation(Image& image, double factor);
/// The hue turned by so many full circles, -0.5 to 0.5, rounded to a 255th; 0 is a conversion to HSV and back, which
/// rounds.
void change_hue(Image& image, double turns);

}  // namespace stages
