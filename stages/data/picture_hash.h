#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "stages/data/image.h"

namespace stages {

/// What a picture looks like from afar: 16 rows of 17 grey places. A picture that was saved again, at another size or
/// quality, has almost the same.
using Thumbnail = std::array<std::uint8_t, std::size_t{17} * 16>;

Thumbnail thumbnail(const Image& image);

/// By how much grey the places of two differ, on the average.
double mean_difference(const Thumbnail& one, const Thumbnail& other);

/// 256 bits of a thumbnail by which similar ones are looked for.
using PictureHash = std::array<std::uint64_t, 4>;

/// The difference hash (Krawetz, "Kind of like that", 2013): a bit is set where a place is brighter than the one to its
/// left, by more than the noise of a black border.
PictureHash picture_hash(const Thumbnail& seen);

/// How many bits differ.
int distance(const PictureHash& one, const PictureHash& other);

/// Groups of two or more of `hashes`, by their positions, that are connected by pairs at most `most` bits apart which
/// `confirm` takes; in the order of their first members. No pair is missed: two hashes that differ in `most` bits are
/// equal in one of `most` + 1 parts, so that only those with a part in common are compared. Of equal hashes only the
/// first is compared with others. `look` is called now and then, and may throw.
std::vector<std::vector<std::size_t>> alike(std::span<const PictureHash> hashes, int most,
                                            const std::function<bool(std::size_t, std::size_t)>& confirm,
                                            const std::function<void()>& look = {});

}  // namespace stages
