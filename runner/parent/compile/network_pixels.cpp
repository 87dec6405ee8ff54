#include "runner/parent/compile/network_pixels.h"

#include <algorithm>

namespace runner {
namespace {

bool is_of(const Value& stage, std::string_view family) {
  const Value* const kind = stage.map() ? stage.find("kind") : nullptr;
  return kind && kind->text() && kind->text()->starts_with(family);
}

/// Returns the options of data stages that the user has set to auto, among image_size, resize and
/// normalize.
std::vector<PixelOption> automatic_pixels(const Value& recipe) {
  std::vector<PixelOption> found;
  for (const Entry& stage : *recipe.map()) {
    if (!is_of(stage.value, "data.")) continue;
    for (const char* const option : {"image_size", "resize", "normalize"}) {
      const Value* const value = stage.value.find(option);
      if (value && !value->is_default && value->says("auto"))
        found.push_back({stage.key, option, value});
    }
  }
  return found;
}

}  // namespace

bool has_python_network(const Value& recipe) {
  return std::ranges::any_of(*recipe.map(),
                             [](const Entry& stage) { return is_of(stage.value, "model.python"); });
}

std::vector<PixelOption> pixels_from_network(const Value& recipe) {
  return has_python_network(recipe) ? automatic_pixels(recipe) : std::vector<PixelOption>();
}

Diagnostics undetermined_pixels(const Value& recipe) {
  Diagnostics errors;
  if (has_python_network(recipe)) return errors;
  for (const PixelOption& one : automatic_pixels(recipe)) {
    if (one.option == "image_size") continue;
    errors.push_back(
        {ErrorCode::kOptionConflict, one.value->where, one.pointer(),
         one.option + " is auto, but the recipe has no model.python that could say how",
         one.option == "normalize" ? "write normalize: {mean: [R, G, B], std: [R, G, B]}"
                                   : "leave resize out, or set its interpolation, crop_fraction, "
                                     "crop_offset and shape"});
  }
  return errors;
}

}  // namespace runner
