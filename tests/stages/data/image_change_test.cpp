#include "stages/data/image_change.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/chance.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

const AugmentOptions kAll{.vertical_flip = 0.5,
                          .brightness = 0.2,
                          .contrast = 0.3,
                          .saturation = 0.4,
                          .hue = 0.1,
                          .rotation = 5,
                          .shear = 7,
                          .translation = 0.05,
                          .zoom = 0.6};

ImageChange drawn_by_key(const AugmentOptions& augment, std::uint64_t key,
                         bool is_mirrored = false) {
  Random random({key});
  return drawn_change(augment, is_mirrored, random);
}

TEST(ImageChange, IsDrawnFromTheConfiguredRanges) {
  std::map<std::string, std::pair<double, double>> ranges;
  int upside_down = 0;
  std::set<std::array<Adjustment, 4>> orders;
  constexpr int kDraws = 3000;
  for (std::uint64_t key = 0; key < kDraws; ++key) {
    const ImageChange change = drawn_by_key(kAll, key);
    upside_down += change.is_upside_down;
    orders.insert(change.order);
    for (const auto& [name, value] : {std::pair{"brightness", change.brightness},
                                      {"contrast", change.contrast},
                                      {"saturation", change.saturation},
                                      {"hue", change.hue.value()},
                                      {"rotation", change.rotation},
                                      {"right", change.right},
                                      {"down", change.down},
                                      {"shear", change.shear},
                                      {"scale", change.scale}}) {
      auto& [least, most] = ranges.try_emplace(name, value, value).first->second;
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  EXPECT_NEAR(upside_down, kDraws / 2, count_error(kDraws, 0.5));
  EXPECT_EQ(orders.size(), 24u);
  const std::map<std::string, std::pair<double, double>> asked = {
      {"brightness", {1, 0.2}}, {"contrast", {1, 0.3}}, {"saturation", {1, 0.4}},
      {"hue", {0, 0.1}},        {"rotation", {0, 5}},   {"right", {0, 0.05}},
      {"down", {0, 0.05}},      {"shear", {0, 7}},      {"scale", {1, 0.6}}};
  for (const auto& [name, range] : asked) {
    const auto [middle, most] = range;
    EXPECT_GE(ranges.at(name).first, middle - most) << name;
    EXPECT_LE(ranges.at(name).second, middle + most) << name;
    EXPECT_NEAR(ranges.at(name).first, middle - most, largest_error(2 * most, kDraws)) << name;
    EXPECT_NEAR(ranges.at(name).second, middle + most, largest_error(2 * most, kDraws)) << name;
  }
}

TEST(ImageChange, EmptyOptionsChangeNothing) {
  ImageChange change = drawn_by_key({}, 5);
  change.order = ImageChange{}.order;
  EXPECT_EQ(change, ImageChange{});
  const Image image = picture(13, 9);
  EXPECT_EQ(changed(image, change).pixels, image.pixels);
}

TEST(ImageChange, OptionsAreDrawnIndependently) {
  AugmentOptions less = kAll;
  less.hue = less.rotation = less.vertical_flip = 0;
  for (std::uint64_t key = 0; key < 20; ++key) {
    ImageChange all = drawn_by_key(kAll, key, true);
    all.hue.reset();
    all.rotation = 0;
    all.is_upside_down = false;
    EXPECT_EQ(drawn_by_key(less, key, true), all);
  }
}

TEST(ImageChange, CropAndHorizontalFlipDoNotChangePixels) {
  EXPECT_FALSE(changes_pixels({}));
  EXPECT_FALSE(
      changes_pixels({.random_resized_crop = RandomResizedCrop{}, .horizontal_flip = 0.5}));
  for (double AugmentOptions::*option :
       {&AugmentOptions::vertical_flip, &AugmentOptions::brightness, &AugmentOptions::contrast,
        &AugmentOptions::saturation, &AugmentOptions::hue, &AugmentOptions::rotation,
        &AugmentOptions::shear, &AugmentOptions::translation, &AugmentOptions::zoom}) {
    AugmentOptions augment;
    augment.*option = 0.1;
    EXPECT_TRUE(changes_pixels(augment));
    EXPECT_TRUE(changes_images(augment));
  }
}

TEST(ImageChange, GeometryFirstAlsoRecolorsTheBlackBorder) {
  const Image image = picture(30, 20, 3);
  ImageChange change{.is_mirrored = true, .contrast = 0.5, .rotation = 45};
  EXPECT_EQ(changed(image, change).row(0)[0], 0);
  change.steps = ChangeOrder::kPlacesFirst;
  EXPECT_GT(changed(image, change).row(0)[0], 0);
  Image steps = rotated(image, 45);
  flip_columns(steps);
  change_contrast(steps, 0.5);
  EXPECT_EQ(changed(image, change).pixels, steps.pixels);
}

TEST(ImageChange, TranslatesByWholePixelsAndFillsWithBlack) {
  const Image image = picture(10, 8, 3);
  const Image moved = changed(image, {.right = 0.2, .down = -0.25});
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 10; ++x) {
      const bool is_inside = x >= 2 && y < 6;
      for (int channel = 0; channel < 3; ++channel) {
        EXPECT_EQ(moved.row(y)[3 * x + channel],
                  is_inside ? image.row(y + 2)[3 * (x - 2) + channel] : 0)
            << x << " " << y;
      }
    }
  }
}

TEST(ImageChange, ImageMovedOutOfTheFrameIsBlack) {
  const Image image = picture(30, 20, 3);
  for (const ImageChange& change :
       {ImageChange{.right = 1}, ImageChange{.right = 1, .shear = 80, .scale = 2e-16},
        ImageChange{.down = -1, .scale = 2e-16}}) {
    EXPECT_EQ(changed(image, change).pixels, Image(30, 20).pixels);
  }
}

TEST(ImageChange, RotatesCounterclockwise) {
  const Image image = picture(7, 7, 2);
  const Image turned = changed(image, {.rotation = 90});
  for (int y = 0; y < 7; ++y) {
    for (int x = 0; x < 7; ++x)
      EXPECT_EQ(turned.row(y)[3 * x], image.row(x)[3 * (6 - y)]) << x << " " << y;
  }
}

TEST(ImageChange, AcceptsVeryWideImages) {
  // If positions were 32-bit numbers in units of 1/65536, they would end at pixel 32767.
  const Image image = picture(40000, 2, 1);
  EXPECT_EQ(changed(image, {.rotation = 180}).row(0)[3 * 39999], image.row(1)[0]);
  const Image sheared = changed(image, {.shear = 1e-9});
  EXPECT_EQ(sheared.pixels, image.pixels);
}

}  // namespace
}  // namespace stages
