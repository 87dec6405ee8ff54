#include "stages/weights/element_type.h"

#include <algorithm>
#include <array>

namespace stages {
namespace {

constexpr std::array kElementTypes = {
    ElementType{"float32", "FloatStorage", 4},
    ElementType{"float64", "DoubleStorage", 8},
    ElementType{"float16", "HalfStorage", 2},
    ElementType{"bfloat16", "BFloat16Storage", 2},
    ElementType{"int64", "LongStorage", 8},
    ElementType{"int32", "IntStorage", 4},
    ElementType{"int16", "ShortStorage", 2},
    ElementType{"int8", "CharStorage", 1},
    ElementType{"uint8", "ByteStorage", 1},
    ElementType{"bool", "BoolStorage", 1},
    ElementType{"complex64", "ComplexFloatStorage", 8},
    ElementType{"complex128", "ComplexDoubleStorage", 16},
    ElementType{"uint16", "", 2},
    ElementType{"uint32", "", 4},
    ElementType{"uint64", "", 8},
    ElementType{"float8_e4m3fn", "", 1},
    ElementType{"float8_e4m3fnuz", "", 1},
    ElementType{"float8_e5m2", "", 1},
    ElementType{"float8_e5m2fnuz", "", 1},
    ElementType{"float8_e8m0fnu", "", 1},
};

}  // namespace

const ElementType* element_type(std::string_view name) {
  const auto type = std::ranges::find(kElementTypes, name, &ElementType::name);
  return type == kElementTypes.end() ? nullptr : &*type;
}

const ElementType* element_type_of_storage(std::string_view storage) {
  const auto type = std::ranges::find(kElementTypes, storage, &ElementType::storage);
  return type == kElementTypes.end() || storage.empty() ? nullptr : &*type;
}

}  // namespace stages
