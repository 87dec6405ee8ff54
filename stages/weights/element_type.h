#pragma once

#include <cstdint>
#include <string_view>

namespace stages {

/// A type of numbers, as torch calls it: "float32".
struct ElementType {
  std::string_view name;
  std::string_view storage;  ///< "FloatStorage"; empty where torch has no typed storage for it
  std::int64_t bytes = 0;
};

/// The type that torch calls so, "float32"; null where there is none.
const ElementType* element_type(std::string_view name);

/// The type whose storage torch calls so, "FloatStorage"; null where there is none.
const ElementType* element_type_of_storage(std::string_view storage);

}  // namespace stages
