#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "stages/data/image.h"

namespace stages {

/// What a picture looks like from afar, in 256 bits: a picture that was saved again, at another size or quality, has
/// almost the same.
using PictureHash = std::array<std::uint64_t, 4>;

/// The difference hash (Krawetz, "Kind of like that", 2013) of 17 x 16 grey places: a bit is set where a place is
/// brighter than the one to its left, by more than the noise of a black border.
PictureHash picture_hash(const Image& image);

/// How many bits differ.
int distance(const PictureHash& one, const PictureHash& other);

/// Groups of two or more of `hashes`, by their positions, that are connected by pairs at most `most` bits apart; in the
/// order of their first members. No pair is missed: two hashes that differ in `most` bits are equal in one of `most` +
/// 1 parts, so that only those with a part in common are compared. `look` is called now and then, and may throw.
std::vector<std::vector<std::size_t>> alike(std::span<const PictureHash> hashes, int most,
                                            const std::function<void()>& look = {});

}  // namespace stages
