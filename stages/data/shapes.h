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

/// The shapes that can be drawn, ordered from the easiest to distinguish: "stripes_horizontal",
/// "disc", …
std::span<const std::string_view> shape_names();

/// Draws shape number `shape` on an image of `size` x `size`; position, rotation and two colors
/// come from `random`. The share of the image that a shape covers is drawn from the same range for
/// all shapes. Each shape gets the lighter of two colors drawn in the same way. Therefore, neither
/// size nor color alone distinguishes the shapes.
Image draw_shape(std::size_t shape, int size, Random random);

/// Parameters of a generated image dataset. Equal parameters produce equal bytes.
struct MadeImages {
  std::int64_t classes = 8;  ///< at most 24
  std::int64_t per_class = 100;
  std::int64_t size = 64;  ///< pixels, both sides
  std::int64_t seed = 0;

  std::int64_t count() const { return classes * per_class; }
};

/// The libjpeg quality of generated files.
inline constexpr int kMadeQuality = 92;

/// Callbacks for progress and cancellation; either may be empty.
struct MakeCallbacks {
  std::function<void(std::int64_t done, std::int64_t all)> progress;  ///< images
  std::function<bool()> canceled;
  runner::Storage* storage = &runner::disk();  ///< writes the images; borrowed
};

/// A kind of dataset that `retort data make NAME` can generate.
struct MadeDataset {
  std::string_view name;
  void (*make)(const std::filesystem::path& folder, const MadeImages&, const MakeCallbacks&);
};

/// Throws runner::StageError (kNotAllowedValue) if these images cannot be generated. Each class
/// needs at least `fewest` images.
void check(const MadeImages& images, std::int64_t fewest);

/// Throws runner::Canceled if cancellation is requested. Call it before each image.
void check_canceled(const MakeCallbacks& callbacks);

/// Returns an integer padded with zeros: "00042" with 5 digits.
std::string padded(std::int64_t number, int digits);

/// An image with a box around its object.
struct BoxedImage {
  Image image;
  Box box;
};

/// Draws shape number `shape`, five eighths of `size` wide, at a random position on a plain, grainy
/// background of `size` x `size`. The result depends only on (seed, shape, index) and `size`.
BoxedImage draw_boxed_shape(std::size_t shape, int size, std::uint64_t seed, std::uint64_t index);

/// Returns "Disc" for "disc".
std::string capitalized(std::string_view word);

}  // namespace stages
