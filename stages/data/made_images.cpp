#include "stages/data/made_images.h"

#include <algorithm>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/shapes.h"

namespace stages {

using runner::ErrorCode;
using runner::StageError;

void check(const MadeImages& images, std::int64_t fewest) {
  const auto kinds = static_cast<std::int64_t>(shape_names().size());
  if (images.classes < 1 || images.classes > kinds) {
    throw StageError(ErrorCode::kNotAllowedValue, "cannot make " + std::to_string(images.classes) + " classes")
        .at("/make/classes")
        .with_help("there are " + std::to_string(kinds) + " kinds of shapes");
  }
  if (images.per_class < fewest || images.size < 8 || images.size > 4096) {
    throw StageError(ErrorCode::kNotAllowedValue, "cannot make " + std::to_string(images.per_class) + " images of " +
                                                      std::to_string(images.size) + " pixels a class")
        .at("/make")
        .with_help("make at least " + (fewest == 1 ? "one" : std::to_string(fewest)) + ", of 8 to 4096 pixels");
  }
}

void check_cancelled(const MakeCallbacks& callbacks) {
  if (callbacks.cancelled && callbacks.cancelled()) throw runner::Cancelled{};
}

std::string padded(std::int64_t number, int digits) {
  std::string text = std::to_string(number);
  return std::string(static_cast<std::size_t>(std::max(0, digits - static_cast<int>(text.size()))), '0') + text;
}

}  // namespace stages
