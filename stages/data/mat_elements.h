#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

// The elements of version 5 MAT-files. The input is not trusted: each function throws
// std::invalid_argument with a clause that describes the error.

// Element types: numeric types, and types that contain other elements.
inline constexpr std::uint32_t kMatInt8 = 1, kMatUint8 = 2, kMatUint16 = 4, kMatInt32 = 5,
                               kMatUint32 = 6, kMatMatrix = 14, kMatCompressed = 15, kMatUtf8 = 16,
                               kMatUtf16 = 17;
// Array classes; those from double to uint64 are numeric.
inline constexpr std::uint32_t kMatCellClass = 1, kMatStructClass = 2, kMatCharClass = 4,
                               kMatDoubleClass = 6, kMatUint8Class = 9, kMatUint16Class = 11,
                               kMatUint64Class = 15;

/// The sizes of the file header and of the text in it, and the offset of the version number.
inline constexpr std::size_t kMatHeadBytes = 128, kMatTextBytes = 116, kMatVersionAt = 124;

struct MatElement {
  std::uint32_t type = 0;
  std::string_view data;
};

/// Reads elements one by one from the front of a byte sequence.
class MatElements {
 public:
  explicit MatElements(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  /// Returns the next element. `what` names the expected element in errors: "it ends within
  /// `what`".
  MatElement next(const char* what);

 private:
  std::string_view rest_;
};

/// An array whose header has been read. Refers to the bytes it was read from.
struct MatArray {
  std::string_view name;
  std::uint32_t array_class = 0;
  bool is_complex = false;
  MatElement dimensions;
  MatElements rest;

  bool is_numeric() const {
    return array_class >= kMatDoubleClass && array_class <= kMatUint64Class;
  }
};

/// Reads the header of the array in an element of type kMatMatrix.
MatArray mat_array(std::string_view data);

/// Returns the variable called `name` in a file. A compressed variable is decompressed into
/// `inflated`, to which the result then refers.
MatArray find_mat_array(std::string_view file, std::string_view name, std::string& inflated);

/// The size of an array with two or more dimensions: the first dimension, and the number of
/// elements. mat_size() calls the array `what` in errors.
struct MatSize {
  std::int64_t rows = 0, elements = 0;
};
MatSize mat_size(const MatArray& array, const std::string& what);

/// Returns the values of an array with `elements` elements, which must be integers. `what` names
/// the array in errors.
std::vector<std::int64_t> mat_numbers(MatArray& array, std::int64_t elements,
                                      const std::string& what);

}  // namespace stages
