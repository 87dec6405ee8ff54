#include "stages/data/picture_colors.h"

#include <algorithm>
#include <array>

namespace stages {
namespace {

/// Luma of ITU-R 601-2, in 65536ths.
std::uint8_t grey_of(const std::uint8_t* pixel) {
  return static_cast<std::uint8_t>((pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
}

/// From `without` to `value` by `factor`, and beyond. In float, as Pillow computes it.
std::uint8_t blended(std::uint8_t without, std::uint8_t value, float factor) {
  const float result = static_cast<float>(without) + factor * static_cast<float>(value - without);
  return static_cast<std::uint8_t>(std::clamp(result, 0.0f, 255.0f));
}

void blend_with(Image& image, std::uint8_t without, double factor) {
  std::array<std::uint8_t, 256> table;
  for (std::size_t value = 0; value < table.size(); ++value)
    table[value] = blended(without, static_cast<std::uint8_t>(value), static_cast<float>(factor));
  for (std::uint8_t& value : image.pixels) value = table[value];
}

struct Hsv {
  std::uint8_t hue = 0, saturation = 0, value = 0;
};

std::uint8_t in_255ths(double share) {
  return static_cast<std::uint8_t>(std::clamp(static_cast<int>(share * 255), 0, 255));
}

Hsv hsv_of(const std::uint8_t* pixel) {
  const auto [least, most] = std::minmax({pixel[0], pixel[1], pixel[2]});
  if (least == most) return {0, 0, most};
  const float range = static_cast<float>(most - least);
  const float red = static_cast<float>(most - pixel[0]) / range, green = static_cast<float>(most - pixel[1]) / range,
              blue = static_cast<float>(most - pixel[2]) / range;
  float sixths = 0;
  if (pixel[0] == most) sixths = blue - green;
  else if (pixel[1] == most) sixths = static_cast<float>(2.0 + red - blue);
  else sixths = static_cast<float>(4.0 + green - red);
  const double turned = sixths / 6.0 + 1.0;
  const auto turns = static_cast<float>(turned < 1 ? turned : turned - 1);
  return {in_255ths(turns), in_255ths(range / static_cast<float>(most)), most};
}

void write_rgb(const Hsv& color, std::uint8_t* pixel) {
  const std::uint8_t most = color.value;
  // Rounded as std::round() would, which is a call for each.
  const auto share = [&](double of_it) {
    return static_cast<std::uint8_t>(static_cast<double>(static_cast<float>(most * of_it)) + 0.5);
  };
  const double sixths = color.hue * 6.0 / 255.0;
  const int sector = static_cast<int>(sixths);
  const auto beyond = static_cast<float>(sixths - sector);
  const auto saturation = static_cast<float>(color.saturation / 255.0);
  const std::uint8_t least = share(1.0 - saturation), falling = share(1.0 - saturation * beyond),
                     rising = share(1.0 - saturation * (1.0 - beyond));
  const std::array<std::array<std::uint8_t, 3>, 6> sectors = {{{most, rising, least},
                                                               {falling, most, least},
                                                               {least, most, rising},
                                                               {least, falling, most},
                                                               {rising, least, most},
                                                               {most, least, falling}}};
  std::ranges::copy(sectors[static_cast<std::size_t>(sector % 6)], pixel);
}

}  // namespace

void change_brightness(Image& image, double factor) { blend_with(image, 0, factor); }

void change_contrast(Image& image, double factor) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < image.pixels.size(); at += 3) sum += grey_of(&image.pixels[at]);
  const double mean = static_cast<double>(sum) / static_cast<double>(image.pixels.size() / 3);
  blend_with(image, static_cast<std::uint8_t>(mean + 0.5), factor);
}

void change_saturation(Image& image, double factor) {
  for (std::size_t at = 0; at < image.pixels.size(); at += 3) {
    std::uint8_t* const pixel = &image.pixels[at];
    const std::uint8_t grey = grey_of(pixel);
    for (int channel = 0; channel < 3; ++channel)
      pixel[channel] = blended(grey, pixel[channel], static_cast<float>(factor));
  }
}

void change_hue(Image& image, double turns) {
  const auto step = static_cast<std::uint8_t>(static_cast<int>(turns * 255));
  for (std::size_t at = 0; at < image.pixels.size(); at += 3) {
    Hsv color = hsv_of(&image.pixels[at]);
    color.hue = static_cast<std::uint8_t>(color.hue + step);
    write_rgb(color, &image.pixels[at]);
  }
}

}  // namespace stages
