#include "stages/data/mat_elements.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "stages/data/mat_file.h"

namespace stages {
namespace {

constexpr std::uint32_t kComplex = 0x0800;  // flag in an array header
constexpr std::size_t kMostDimensions = 32;

[[noreturn]] void refuse_mat(const std::string& what) { throw std::invalid_argument(what); }

/// Returns the number at the beginning of `bytes`, which must be long enough. Both the files and
/// this machine are little-endian.
template <typename T>
T number_at(std::string_view bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// Owns a zlib stream, and releases it even if an exception is thrown.
struct Inflation {
  z_stream stream{};
  bool begun = inflateInit(&stream) == Z_OK;
  Inflation() = default;
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;
  ~Inflation() {
    if (begun) inflateEnd(&stream);
  }
};

/// Decompresses `bytes`; rejects results longer than `limit`.
std::string inflate_element(std::string_view bytes, std::size_t limit) {
  Inflation inflation;
  if (!inflation.begun) throw std::bad_alloc();
  z_stream& stream = inflation.stream;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string result;
  std::array<char, 16 << 10> piece;
  int state = Z_OK;
  while (state == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = piece.size() - stream.avail_out;
    if (made > limit - result.size())
      refuse_mat("its data is larger than any list of labels when decompressed");
    result.append(piece.data(), made);
  }
  if (state != Z_STREAM_END) refuse_mat("a compressed part of it is damaged");
  return result;
}

template <typename T>
void append_numbers(std::string_view data, std::vector<std::int64_t>& values) {
  values.reserve(data.size() / sizeof(T));
  for (std::size_t at = 0; at < data.size(); at += sizeof(T)) {
    const T value = number_at<T>(data.substr(at));
    if constexpr (std::is_floating_point_v<T>) {
      // This form of the comparison also rejects NaN.
      if (!(std::abs(value) <= T{1 << 24}) || value != std::trunc(value))
        refuse_mat("it has a number that is not an integer");
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        refuse_mat("it has a number that is too large");
    }
    values.push_back(static_cast<std::int64_t>(value));
  }
}

using AppendNumbers = void (*)(std::string_view, std::vector<std::int64_t>&);

struct NumberType {
  std::size_t bytes = 0;
  AppendNumbers append = nullptr;
};

template <typename T>
constexpr NumberType kNumbers{sizeof(T), append_numbers<T>};

/// Returns the type in which an array's values are stored, which may be narrower than the array
/// class; nullopt if it is not numeric.
std::optional<NumberType> number_type(std::uint32_t type) {
  switch (type) {
    case kMatInt8:
      return kNumbers<std::int8_t>;
    case kMatUint8:
      return kNumbers<std::uint8_t>;
    case 3:
      return kNumbers<std::int16_t>;
    case kMatUint16:
      return kNumbers<std::uint16_t>;
    case kMatInt32:
      return kNumbers<std::int32_t>;
    case kMatUint32:
      return kNumbers<std::uint32_t>;
    case 7:
      return kNumbers<float>;
    case 9:
      return kNumbers<double>;
    case 12:
      return kNumbers<std::int64_t>;
    case 13:
      return kNumbers<std::uint64_t>;
    default:
      return std::nullopt;
  }
}

}  // namespace

MatElement MatElements::next(const char* what) {
  if (rest_.size() < 8) refuse_mat(std::string("it ends within ") + what);
  const auto first = number_at<std::uint32_t>(rest_);
  // A small element has its size in the upper half of the first word and its data in the second
  // word.
  if (const std::uint32_t small = first >> 16; small != 0) {
    if (small > 4)
      refuse_mat(std::string("it has a small element of ") + std::to_string(small) + " bytes");
    const MatElement element{first & 0xffff, rest_.substr(4, small)};
    rest_.remove_prefix(8);
    return element;
  }
  const std::size_t size = number_at<std::uint32_t>(rest_.substr(4));
  if (size > rest_.size() - 8) {
    refuse_mat(std::string("it ends within ") + what + ": " + std::to_string(size) +
               " bytes are expected, but only " + std::to_string(rest_.size() - 8) + " are left");
  }
  const MatElement element{first, rest_.substr(8, size)};
  // Compressed elements have no padding, and the last element may have none.
  const std::size_t padded = first == kMatCompressed ? size : (size + 7) / 8 * 8;
  rest_.remove_prefix(std::min(rest_.size(), 8 + padded));
  return element;
}

MatArray mat_array(std::string_view data) {
  MatElements parts(data);
  const MatElement flags = parts.next("the flags of a variable");
  if (flags.type != kMatUint32 || flags.data.size() != 8)
    refuse_mat("it has a variable without flags");
  const auto word = number_at<std::uint32_t>(flags.data);
  const MatElement dimensions = parts.next("the size of a variable");
  const MatElement name = parts.next("the name of a variable");
  if (name.type != kMatInt8 && name.type != kMatUint8)
    refuse_mat("it has a variable without a name");
  return {.name = name.data,
          .array_class = word & 0xff,
          .is_complex = (word & kComplex) != 0,
          .dimensions = dimensions,
          .rest = parts};
}

MatArray find_mat_array(std::string_view file, std::string_view name, std::string& inflated) {
  if (file.size() > kMaxMatBytes) refuse_mat("it is larger than any list of labels");
  if (file.size() < kMatHeadBytes || !file.starts_with("MATLAB "))
    refuse_mat("it is not a version 5 MAT-file");
  const std::string_view mark = file.substr(kMatVersionAt, 4);
  if (mark.substr(2) == "MI")
    refuse_mat("it was written on a big-endian machine; save it again on this one");
  if (mark.substr(2) != "IM") refuse_mat("it is not a version 5 MAT-file");
  if (number_at<std::uint16_t>(mark) != 0x0100)
    refuse_mat("its version is not 5; save it again with -v7");

  std::size_t room = kMaxMatBytes;
  for (MatElements elements(file.substr(kMatHeadBytes)); !elements.empty();) {
    MatElement element = elements.next("a variable");
    if (element.type == kMatCompressed) {
      inflated = inflate_element(element.data, room);
      room -= inflated.size();
      element = MatElements(inflated).next("a compressed variable");
    }
    if (element.type != kMatMatrix)
      refuse_mat("it has an element of type " + std::to_string(element.type) +
                 " among its variables");
    MatArray array = mat_array(element.data);
    if (array.name == name) return array;
  }
  refuse_mat("it has no variable '" + std::string(name) + "'");
}

MatSize mat_size(const MatArray& array, const std::string& what) {
  const std::string_view data = array.dimensions.data;
  const std::size_t count = data.size() / 4;
  if (array.dimensions.type != kMatInt32 || data.size() % 4 != 0 || count < 2 ||
      count > kMostDimensions) {
    refuse_mat(what + " has an invalid size");
  }
  // Every factor and product is limited to the number of values that a file can contain.
  MatSize size{.rows = 0, .elements = 1};
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t length = number_at<std::int32_t>(data.substr(4 * i));
    if (length < 0 || length > static_cast<std::int64_t>(kMaxMatBytes))
      refuse_mat(what + " has an invalid size");
    if (i == 0) size.rows = length;
    size.elements *= length;
    if (size.elements > static_cast<std::int64_t>(kMaxMatBytes))
      refuse_mat(what + " has an invalid size");
  }
  return size;
}

std::vector<std::int64_t> mat_numbers(MatArray& array, std::int64_t elements,
                                      const std::string& what) {
  const MatElement numbers = array.rest.next("the numbers of a variable");
  const auto type = number_type(numbers.type);
  if (!type) refuse_mat(what + " has numbers of an unknown type");
  if (numbers.data.size() != static_cast<std::size_t>(elements) * type->bytes) {
    refuse_mat(what + " has a number of elements that does not match its size");
  }
  std::vector<std::int64_t> values;
  type->append(numbers.data, values);
  return values;
}

}  // namespace stages
