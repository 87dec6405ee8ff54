#include "stages/train/same_classes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runner/shared/stage/stage.h"

namespace stages {

using runner::ErrorCode;
using runner::StageError;

void check_same_classes(const Dataset& train, const Dataset* validation) {
  const std::vector<std::string> classes = train.describe().classes;
  if (classes.empty()) {
    throw StageError(ErrorCode::kLabelOutOfRange, "the training data has no classes")
        .with_help("wire labelled data to 'train'");
  }
  if (!validation || validation->describe().classes == classes) return;
  for (const std::string& name : validation->describe().classes) {
    if (std::ranges::find(classes, name) != classes.end()) continue;
    throw StageError(ErrorCode::kLabelOutOfRange,
                     "the validation data has a class '" + name + "' that the training data lacks")
        .with_help("train and validate on the same classes");
  }
  throw StageError(ErrorCode::kLabelOutOfRange,
                   "the validation data numbers its classes differently from the training data")
      .with_help("give both the same classes in the same order");
}

}  // namespace stages
