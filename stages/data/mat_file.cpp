#include "stages/data/mat_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <type_traits>

namespace stages {
namespace {

constexpr std::size_t kHeadBytes = 128, kTextBytes = 116, kVersionAt = 124;
constexpr std::uint32_t kMatrix = 14, kCompressed = 15;                               // types of elements
constexpr std::uint32_t kInt8 = 1, kUint8 = 2, kUint16 = 4, kInt32 = 5, kUint32 = 6;  // and of the numbers in them
constexpr std::uint32_t kComplex = 0x0800;                                            // among an array's flags
constexpr std::uint32_t kFirstNumeric = 6, kLastNumeric = 15;  // classes of arrays, double to uint64
constexpr std::uint32_t kUint8Class = 9, kUint16Class = 11;
constexpr std::size_t kMostDimensions = 32;

[[noreturn]] void refuse_mat(const std::string& what) { throw std::invalid_argument(what); }

/// The number at the beginning of `bytes`, which are enough for it. Files are little-endian, and so are we.
template <typename T>
T number_at(std::string_view bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

struct Element {
  std::uint32_t type = 0;
  std::string_view data;
};

/// Takes elements off the front of some bytes.
class Elements {
 public:
  explicit Elements(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }

  Element next(const char* what) {
    if (rest_.size() < 8) refuse_mat(std::string("it ends within ") + what);
    const auto first = number_at<std::uint32_t>(rest_);
    // A small element has its size in the upper half of the first word, and its data in the second.
    if (const std::uint32_t small = first >> 16; small != 0) {
      if (small > 4) refuse_mat(std::string("it has a small element of ") + std::to_string(small) + " bytes");
      const Element element{first & 0xffff, rest_.substr(4, small)};
      rest_.remove_prefix(8);
      return element;
    }
    const std::size_t size = number_at<std::uint32_t>(rest_.substr(4));
    if (size > rest_.size() - 8) {
      refuse_mat(std::string("it ends within ") + what + ": " + std::to_string(size) + " bytes are announced and " +
                 std::to_string(rest_.size() - 8) + " are there");
    }
    const Element element{first, rest_.substr(8, size)};
    // What is compressed is not padded, and what comes last need not be.
    const std::size_t padded = first == kCompressed ? size : (size + 7) / 8 * 8;
    rest_.remove_prefix(std::min(rest_.size(), 8 + padded));
    return element;
  }

 private:
  std::string_view rest_;
};

/// Ends an inflation whatever happens.
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

/// What `bytes` hold compressed; no more than `limit` bytes.
std::string inflated(std::string_view bytes, std::size_t limit) {
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
    if (made > limit - result.size()) refuse_mat("its compressed parts are larger than any list of labels");
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
      // Written so that a number which is none is refused too.
      if (!(std::abs(value) <= T{1 << 24}) || value != std::trunc(value))
        refuse_mat("it has a number that is not an integer");
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        refuse_mat("it has a number too large");
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

/// How numbers are stored; their class may be wider.
std::optional<NumberType> number_type(std::uint32_t type) {
  switch (type) {
    case kInt8:
      return kNumbers<std::int8_t>;
    case kUint8:
      return kNumbers<std::uint8_t>;
    case 3:
      return kNumbers<std::int16_t>;
    case kUint16:
      return kNumbers<std::uint16_t>;
    case kInt32:
      return kNumbers<std::int32_t>;
    case kUint32:
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

/// The matrix in an element of that type, where it is the one wanted.
std::optional<MatMatrix> matrix_named(std::string_view wanted, std::string_view data) {
  Elements parts(data);
  const Element flags = parts.next("the flags of a variable");
  if (flags.type != kUint32 || flags.data.size() != 8) refuse_mat("it has a variable without flags");
  const auto word = number_at<std::uint32_t>(flags.data);
  const Element dimensions = parts.next("the size of a variable");
  const Element name = parts.next("the name of a variable");
  if (name.type != kInt8 && name.type != kUint8) refuse_mat("it has a variable without a name");
  if (name.data != wanted) return std::nullopt;

  MatMatrix matrix{.name = std::string(wanted)};
  const std::string what = "its '" + matrix.name + "'";
  const std::uint32_t array_class = word & 0xff;
  if (array_class < kFirstNumeric || array_class > kLastNumeric) refuse_mat(what + " is not a matrix of numbers");
  if (word & kComplex) refuse_mat(what + " has complex numbers");
  const std::size_t count = dimensions.data.size() / 4;
  if (dimensions.type != kInt32 || dimensions.data.size() % 4 != 0 || count < 2 || count > kMostDimensions) {
    refuse_mat(what + " has an invalid size");
  }
  // Each factor and each product is bounded by the numbers that a file can hold.
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t length = number_at<std::int32_t>(dimensions.data.substr(4 * i));
    if (length < 0 || length > static_cast<std::int64_t>(kMaxMatBytes)) refuse_mat(what + " has an invalid size");
    if (i == 0) matrix.rows = length;
    elements *= length;
    if (elements > static_cast<std::int64_t>(kMaxMatBytes)) refuse_mat(what + " has an invalid size");
  }
  matrix.columns = matrix.rows > 0 ? elements / matrix.rows : 0;

  const Element numbers = parts.next("the numbers of a variable");
  const auto type = number_type(numbers.type);
  if (!type) refuse_mat(what + " has numbers of an unknown type");
  if (numbers.data.size() != static_cast<std::size_t>(elements) * type->bytes) {
    refuse_mat(what + " has a number of elements that does not match its size");
  }
  type->append(numbers.data, matrix.values);
  return matrix;
}

void append_number(std::string& text, std::uint32_t number, int bytes = 4) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xff);
}

void append_element(std::string& text, std::uint32_t type, std::string_view data) {
  append_number(text, type);
  append_number(text, static_cast<std::uint32_t>(data.size()));
  text += data;
  text.append((8 - data.size() % 8) % 8, '\0');
}

std::string matrix_element(const MatMatrix& matrix) {
  const bool is_wide = std::ranges::any_of(matrix.values, [](std::int64_t value) { return value > 255; });
  std::string flags, dimensions, numbers, data;
  append_number(flags, is_wide ? kUint16Class : kUint8Class);
  append_number(flags, 0);
  append_number(dimensions, static_cast<std::uint32_t>(matrix.rows));
  append_number(dimensions, static_cast<std::uint32_t>(matrix.columns));
  for (const std::int64_t value : matrix.values)
    append_number(numbers, static_cast<std::uint32_t>(value), is_wide ? 2 : 1);
  append_element(data, kUint32, flags);
  append_element(data, kInt32, dimensions);
  append_element(data, kInt8, matrix.name);
  append_element(data, is_wide ? kUint16 : kUint8, numbers);
  return data;
}

}  // namespace

MatMatrix read_mat(std::string_view file, std::string_view name) {
  if (file.size() > kMaxMatBytes) refuse_mat("it is larger than any list of labels");
  if (file.size() < kHeadBytes || !file.starts_with("MATLAB ")) refuse_mat("it is not a MAT-file of version 5");
  const std::string_view mark = file.substr(kVersionAt, 4);
  if (mark.substr(2) == "MI") refuse_mat("it was written by a big-endian machine; save it again on this one");
  if (mark.substr(2) != "IM") refuse_mat("it is not a MAT-file of version 5");
  if (number_at<std::uint16_t>(mark) != 0x0100)
    refuse_mat("it is a MAT-file of another version than 5; save it by -v7");

  std::size_t room = kMaxMatBytes;
  for (Elements elements(file.substr(kHeadBytes)); !elements.empty();) {
    Element element = elements.next("a variable");
    std::string made;
    if (element.type == kCompressed) {
      made = inflated(element.data, room);
      room -= made.size();
      element = Elements(made).next("a compressed variable");
    }
    if (element.type != kMatrix)
      refuse_mat("it has an element of type " + std::to_string(element.type) + " among its variables");
    if (auto matrix = matrix_named(name, element.data)) return *std::move(matrix);
  }
  refuse_mat("it has no variable '" + std::string(name) + "'");
}

std::string mat_file(std::span<const MatMatrix> matrices) {
  std::string file = "MATLAB 5.0 MAT-file, written by Retort";
  file.resize(kTextBytes, ' ');
  file.append(kVersionAt - kTextBytes, '\0');
  append_number(file, 0x0100, 2);
  file += "IM";
  for (const MatMatrix& matrix : matrices) append_element(file, kMatrix, matrix_element(matrix));
  return file;
}

}  // namespace stages
