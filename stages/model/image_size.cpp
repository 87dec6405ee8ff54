#include "stages/model/image_size.h"

#include <algorithm>

#include "runner/shared/stage/stage.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// Height and width of the data's images.
std::int64_t square_size(const DatasetDescription& data, const std::string& pointer) {
  const auto image = std::ranges::find(data.tensors, "image", &TensorSpec::name);
  if (image == data.tensors.end() || image->shape.size() != 3 || image->shape[0] != 3) {
    throw StageError(ErrorCode::kOptionConflict, "the data has no images of three channels")
        .in_stage(pointer)
        .with_help("this model classifies colour images: wire it to a data stage that gives them");
  }
  if (image->shape[1] != image->shape[2]) {
    throw StageError(ErrorCode::kOptionConflict, "the data's images are " + std::to_string(image->shape[1]) +
                                                     " pixels high and " + std::to_string(image->shape[2]) +
                                                     " wide, the model takes square ones")
        .at("/image_size")
        .in_stage(pointer)
        .with_help("let the data stage crop them square");
  }
  return image->shape[1];
}

}  // namespace

std::string not_a_multiple(std::string_view what, std::int64_t value, std::string_view by, std::int64_t divisor) {
  return std::string(what) + " " + std::to_string(value) + " is not a multiple of " + std::string(by) + " " +
         std::to_string(divisor);
}

std::int64_t fitting_image_size(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                                std::int64_t patch_size, const std::string& pointer) {
  const std::int64_t size = square_size(data, pointer);
  if (wanted && *wanted != size) {
    throw StageError(ErrorCode::kOptionConflict, "the data's images are " + std::to_string(size) +
                                                     " pixels wide, the model takes " + std::to_string(*wanted))
        .at("/image_size")
        .in_stage(pointer)
        .with_help("set 'image_size: auto', or the data stage's size");
  }
  if (size % patch_size != 0) {
    throw StageError(ErrorCode::kOptionConflict,
                     not_a_multiple("the data's image size", size, "patch_size", patch_size))
        .at("/patch_size")
        .in_stage(pointer)
        .with_help("change one of them: an image is cut into whole patches");
  }
  return size;
}

std::int64_t fitting_classes(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                             const std::string& pointer) {
  const auto classes = static_cast<std::int64_t>(data.classes.size());
  if (classes == 0) {
    throw StageError(ErrorCode::kLabelOutOfRange, "the data has no classes")
        .at("/num_classes")
        .in_stage(pointer)
        .with_help("a classifier needs labelled data");
  }
  const std::int64_t in_all = data.pair_of > 0 ? data.pair_of : classes;
  if (wanted && *wanted != in_all) {
    throw StageError(ErrorCode::kLabelOutOfRange, "num_classes is " + std::to_string(*wanted) + ", the data has " +
                                                      std::to_string(in_all) + " classes")
        .at("/num_classes")
        .in_stage(pointer)
        .with_help("set 'num_classes: auto'");
  }
  return logits_for(data);
}

}  // namespace stages
