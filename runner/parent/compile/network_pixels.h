#pragma once

#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// An option of a data stage that a Python network determines: image_size or normalize, if it is
/// auto in a recipe with a model.python. Such an option is known only once the network has been
/// asked, so it stays auto in a composed recipe.
struct PixelOption {
  std::string stage;   ///< "data"
  std::string option;  ///< "image_size" or "normalize"
  const Value* value;  ///< borrowed from the recipe
  std::string key() const { return stage + "." + option; }
  std::string pointer() const { return pointer_to(pointer_to("", stage), option); }
};

/// True if a stage of the recipe is a network defined in Python.
bool has_python_network(const Value& recipe);

/// Returns the options that a Python network determines, in the order of the recipe.
std::vector<PixelOption> pixels_from_network(const Value& recipe);

/// Returns an error for each normalize that is auto in a recipe without a Python network.
Diagnostics unknown_normalization(const Value& recipe);

}  // namespace runner
