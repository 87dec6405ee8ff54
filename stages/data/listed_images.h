#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stages/data/annotation_files.h"

namespace stages {

/// What a list of images for few-shot learning says, line by line: nothing of it has been looked for.
struct ListedImages {
  std::vector<std::string> paths;    ///< as written
  std::vector<std::int64_t> labels;  ///< of each path; a position in `classes`
  std::vector<std::size_t> lines;    ///< where each path stands, counted from one
  std::vector<std::string> classes;  ///< names of the labels that occur, none twice
  bool is_named = true;              ///< false: the list has no names, and the classes are called by their numbers
};

/// The largest list that is read.
inline constexpr std::size_t kMaxListBytes = std::size_t{128} << 20;

/// Reads {"label_names": [...], "image_names": [...], "image_labels": [...]}, as CloserLookFewShot and its descendants
/// write it; other keys are passed over. Its classes are the labels that occur, in their order. They are called by the
/// names at their positions; where there are as many names as labels that occur, by these in order; without any names,
/// by their numbers. What is wrong ends up in `files`, and the result is then of no use; a list without images is not.
ListedImages read_filelist(AnnotationFiles& files, const std::string& name);

/// Reads a table whose first line names its columns, `filename` and `label` among them, as meta-learning-lstm has for
/// miniImagenet. Its classes are the labels, sorted bytewise. Faults are told in the same way.
ListedImages read_split_csv(AnnotationFiles& files, const std::string& name);

}  // namespace stages
