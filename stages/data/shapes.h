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

/// A picture of shape number `shape`, `size` x `size`, drawn from `random`: where it lies, how it
/// is turned and what its two colours are. Every shape covers the same shares of the picture and
/// takes its colours alike, the lighter one for the shape, so colours alone do not tell the shapes
/// apart.
Image draw_shape(std::size_t shape, int size, Random random);

/// How many shapes are drawn for a set of images that is made. Same numbers, same bytes.
struct MadeImages {
  std::int64_t classes = 8;  ///< at most 24
  std::int64_t per_class = 100;
  std::int64_t size = 64;  ///< pixels, both sides
  std::int64_t seed = 0;

  std::int64_t count() const { return classes * per_class; }
};

/// libjpeg's, of the files that are made.
inline constexpr int kMadeQuality = 92;

/// What the making tells and asks; either may be empty.
struct MakeCallbacks {
  std::function<void(std::int64_t done, std::int64_t all)> progress;  ///< images
  std::function<bool()> cancelled;
  runner::Storage* storage = &runner::disk();  ///< that the images are written to; borrowed
};

/// A data set that is made, as `retort data make NAME` makes it in a folder.
struct MadeDataset {
  std::string_view name;
  void (*make)(const std::filesystem::path& folder, const MadeImages&, const MakeCallbacks&);
};

/// Throws runner::StageError, kNotAllowedValue, for images that cannot be made; `fewest` are needed
/// of each class.
void check(const MadeImages& images, std::int64_t fewest);

/// Throws runner::Cancelled if that is wanted. Once before each image.
void check_cancelled(const MakeCallbacks& callbacks);

/// A whole number with leading zeros: "00042" for 5 digits.
std::string padded(std::int64_t number, int digits);

/// A picture of which a box says where what it shows is.
struct BoxedPicture {
  Image image;
  Box box;
};

/// Shape number `shape`, of five eighths of `size`, somewhere on a plain, grainy ground of `size` x
/// `size`; a function of (seed, shape, index).
BoxedPicture draw_boxed_shape(std::size_t shape, int size, std::uint64_t seed, std::uint64_t index);

/// "Disc" of "disc".
std::string capitalized(std::string_view word);

}  // namespace stages
