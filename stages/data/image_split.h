#pragma once

#include <cstdint>

#include "stages/data/image_list.h"

namespace stages {

/// The share of each class that goes to each part; the shares add up to at most 1.
struct SplitOptions {
  double train = 0.8, validation = 0, test = 0.2;
};

/// Divides the training images of each class among the parts by the largest-remainder method; which
/// images go where is a random function of `seed` and the file names. Images keep their order and
/// follow those that a part already has. Each part with a share above 0 gets at least one image of
/// every class that has enough images; if a class has too few, train comes first, then test, then
/// validation. Images of one patient stay together: patients are divided like images, and each
/// patient counts as one image, in the highest class among the patient's images.
///
/// The images of a class are ranked by a hash of (seed, name), and the parts get consecutive ranges
/// of that ranking: train, validation, test. The shares are therefore exact. Adding or removing an
/// image moves no image of another class, and only a few of the same class, at the boundaries
/// between parts. Once a run has begun, its recorded division (stages/artifact/division.h) prevents
/// that too.
void split(ImageList& list, const SplitOptions& options, std::uint64_t seed);

}  // namespace stages
