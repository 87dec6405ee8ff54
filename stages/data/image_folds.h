#pragma once

#include <cstdint>

#include "stages/data/image_list.h"

namespace stages {

/// The folds of a k-fold cross-validation.
struct FoldOptions {
  std::int64_t count = 0;  ///< at least 2
  std::int64_t index = 0;  ///< the fold that is the validation part, 0 … count-1
};

/// Divides the training images into folds. The result is a function of `seed`, the names, the
/// labels and the groups. Fold `index` becomes the validation part, and the other folds stay in the
/// training part. Images keep their order. The test part is not divided. Across all indices, each
/// image is in the validation part exactly once.
///
/// Images of one patient (ImageFile::patient) stay in the same fold; such a group belongs to the
/// highest class among its images, as in split(). The groups of a class are assigned one by one,
/// largest first and equally large ones in random order, to the fold with the fewest images of the
/// class; ties go to the fold with the fewest images in total. Without groups, two folds differ by
/// at most 1 in the number of images of each class, and by at most 1 in the total number of images.
///
/// Throws runner::StageError if the list already has a validation part (kOptionConflict, at
/// /folds), or if a class has fewer images or groups than there are folds (kTooFewSamples, at
/// /folds/count).
void take_fold(ImageList& list, const FoldOptions& folds, std::uint64_t seed);

}  // namespace stages
