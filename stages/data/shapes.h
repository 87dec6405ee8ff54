#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runner/shared/disk/storage.h"
#include "stages/data/image.h"
#include "stages/random/random.h"

namespace stages {

/// The kinds of shapes that can be drawn, easiest to tell apart first: "stripes_horizontal",
/// "disc", …
std::span<const std::string_view> shape_names();

/// An image of shape number `shape`, `size` x `size`; position, rotation and its two colours are
/// drawn from `random`. Every shape covers the same shares of the image and draws its colours in
/// the same way, the lighter one for the shape, so colours alone do not distinguish the shapes.
Image draw_shape(std::size_t shape, int size, Random random);

/// Parameters of a generated set of images. Same numbers, same bytes.
struct MadeImages {
  std::int64_t classes = 8;  ///< at most 24
  std::int64_t per_class = 100;
  std::int64_t size = 64;  ///< pixels, both sides
  std::int64_t seed = 0;

  std::int64_t count() const { return classes * per_class; }
};

/// libjpeg's quality of the generated files.
inline constexpr int kMadeQuality = 92;

/// Callbacks for progress and cancellation; either may be empty.
struct MakeCallbacks {
  std::function<void(std::int64_t done, std::int64_t all)> progress;  ///< images
  std::function<bool()> cancelled;
  runner::Storage* storage = &runner::disk();  ///< where the images are written; borrowed
};

/// A generated data set, as `retort data make NAME` makes it in a folder.
struct MadeDataset {
  std::string_view name;
  void (*make)(const std::filesystem::path& folder, const MadeImages&, const MakeCallbacks&);
};

/// Throws runner::StageError, kNotAllowedValue, for images that cannot be made; each class needs at
/// least `fewest`.
void check(const MadeImages& images, std::int64_t fewest);

/// Throws runner::Cancelled if requested. Called once before each image.
void check_cancelled(const MakeCallbacks& callbacks);

/// A whole number with leading zeros: "00042" with 5 digits.
std::string padded(std::int64_t number, int digits);

/// An image with a box around its object.
struct BoxedImage {
  Image image;
  Box box;
};

/// Shape number `shape`, five eighths of `size` wide, at a random position on a plain, grainy
/// background of `size` x `size`; a function of (seed, shape, index).
BoxedImage draw_boxed_shape(std::size_t shape, int size, std::uint64_t seed, std::uint64_t index);

/// "Disc" from "disc".
std::string capitalized(std::string_view word);

}  // namespace stages
