#include "stages/data/mat_file.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "stages/data/mat_elements.h"

namespace stages {
namespace {

[[noreturn]] void refuse_variable(const std::string& what) { throw std::invalid_argument(what); }

/// Appends a character as UTF-8.
void append_character(std::string& text, std::uint32_t character) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto rest = [&](int shift) { add(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80) return add(character);
  if (character < 0x800) {
    add(0xc0 | character >> 6);
  } else if (character < 0x10000) {
    add(0xe0 | character >> 12);
    rest(6);
  } else {
    add(0xf0 | character >> 18);
    rest(12);
    rest(6);
  }
  rest(0);
}

/// Converts UTF-16 to UTF-8; an unpaired surrogate becomes U+FFFD.
std::string from_utf16(std::string_view bytes) {
  std::string text;
  const auto unit = [&](std::size_t at) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at])) |
           static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + 1])) << 8;
  };
  const auto is_in = [](std::uint32_t value, std::uint32_t first) {
    return value >= first && value < first + 0x400;
  };
  for (std::size_t at = 0; at + 1 < bytes.size(); at += 2) {
    std::uint32_t character = unit(at);
    if (is_in(character, 0xd800) && at + 3 < bytes.size() && is_in(unit(at + 2), 0xdc00)) {
      character = 0x10000 + ((character - 0xd800) << 10) + (unit(at += 2) - 0xdc00);
    } else if (is_in(character, 0xd800) || is_in(character, 0xdc00)) {
      character = 0xfffd;
    }
    append_character(text, character);
  }
  return text;
}

/// Returns the text in a character array; nullopt if the array has more than one row.
std::optional<std::string> text_in(MatArray& array, const MatSize& size) {
  const MatElement letters = array.rest.next("the text of a variable");
  if (size.elements > 0 && size.rows != 1) return std::nullopt;
  if (letters.type == kMatUtf16 || letters.type == kMatUint16) return from_utf16(letters.data);
  if (letters.type == kMatUtf8 || letters.type == kMatUint8 || letters.type == kMatInt8)
    return std::string(letters.data);
  return std::nullopt;
}

/// Returns the contents of the next array if it is a string or a single integer; otherwise
/// std::monostate.
MatCell next_cell(MatElements& elements, const std::string& what) {
  const MatElement element = elements.next(what.c_str());
  if (element.type != kMatMatrix)
    refuse_variable(what + " has an element of type " + std::to_string(element.type) + " in it");
  if (element.data.empty()) return {};
  MatArray array = mat_array(element.data);
  const MatSize size = mat_size(array, what);
  if (array.array_class == kMatCharClass) {
    auto text = text_in(array, size);
    return text ? MatCell(*std::move(text)) : MatCell();
  }
  if (!array.is_numeric() || array.is_complex || size.elements != 1) return {};
  try {
    return mat_numbers(array, 1, what).front();
  } catch (const std::invalid_argument&) {
    return {};  // not an integer
  }
}

}  // namespace

MatMatrix read_mat(std::string_view file, std::string_view name) {
  std::string inflated;
  MatArray array = find_mat_array(file, name, inflated);
  MatMatrix matrix{.name = std::string(name)};
  const std::string what = "its '" + matrix.name + "'";
  if (!array.is_numeric()) refuse_variable(what + " is not a matrix of numbers");
  if (array.is_complex) refuse_variable(what + " has complex numbers");
  const MatSize size = mat_size(array, what);
  matrix.rows = size.rows;
  matrix.columns = size.rows > 0 ? size.elements / size.rows : 0;
  matrix.values = mat_numbers(array, size.elements, what);
  return matrix;
}

std::vector<std::string> read_mat_texts(std::string_view file, std::string_view name) {
  std::string inflated;
  MatArray array = find_mat_array(file, name, inflated);
  const std::string what = "its '" + std::string(name) + "'";
  if (array.array_class != kMatCellClass) refuse_variable(what + " is not a list of strings");
  const MatSize size = mat_size(array, what);
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < size.elements; ++i) {
    MatCell cell = next_cell(array.rest, what);
    auto* const text = std::get_if<std::string>(&cell);
    if (!text) refuse_variable(what + " has no text at " + std::to_string(i + 1));
    texts.push_back(std::move(*text));
  }
  return texts;
}

MatRecords read_mat_records(std::string_view file, std::string_view name) {
  std::string inflated;
  MatArray array = find_mat_array(file, name, inflated);
  const std::string what = "its '" + std::string(name) + "'";
  if (array.array_class != kMatStructClass) refuse_variable(what + " is not a list of records");
  const MatSize size = mat_size(array, what);
  const MatElement width = array.rest.next("the fields of a variable");
  const MatElement names = array.rest.next("the fields of a variable");
  const std::size_t bytes = width.data.size() == 4 ? static_cast<unsigned char>(width.data[0]) : 0;
  const bool is_width =
      bytes != 0 && width.type == kMatInt32 && width.data.substr(1) == std::string_view("\0\0", 3);
  if (!is_width || names.data.size() % bytes != 0)
    refuse_variable(what + " has fields without names");
  MatRecords records;
  for (std::size_t at = 0; at < names.data.size(); at += bytes) {
    const std::string_view field = names.data.substr(at, bytes);
    records.fields.emplace_back(field.substr(0, field.find('\0')));
  }
  for (std::int64_t i = 0; i < size.elements && !records.fields.empty(); ++i) {
    std::vector<MatCell>& record = records.rows.emplace_back();
    for (std::size_t field = 0; field < records.fields.size(); ++field)
      record.push_back(next_cell(array.rest, what));
  }
  return records;
}

namespace {

constexpr std::size_t kFieldBytes = 32;

void append_number(std::string& text, std::uint32_t number, int bytes = 4) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xff);
}

void append_element(std::string& text, std::uint32_t type, std::string_view data) {
  append_number(text, type);
  append_number(text, static_cast<std::uint32_t>(data.size()));
  text += data;
  text.append((8 - data.size() % 8) % 8, '\0');
}

/// Appends an element with 1 to 4 bytes of data, in eight bytes. The length of field names must be
/// stored in this form.
void append_small_element(std::string& text, std::uint32_t type, std::string_view data) {
  append_number(text, type | static_cast<std::uint32_t>(data.size()) << 16);
  text += data;
  text.append(4 - data.size(), '\0');
}

/// Returns the header of an array, which precedes its contents.
std::string array_head(std::uint32_t array_class, std::int64_t rows, std::int64_t columns,
                       std::string_view name) {
  std::string flags, dimensions, head;
  append_number(flags, array_class);
  append_number(flags, 0);
  append_number(dimensions, static_cast<std::uint32_t>(rows));
  append_number(dimensions, static_cast<std::uint32_t>(columns));
  append_element(head, kMatUint32, flags);
  append_element(head, kMatInt32, dimensions);
  append_element(head, kMatInt8, name);
  return head;
}

void append_values(std::string& array, const std::vector<std::int64_t>& values, bool is_wide) {
  std::string numbers;
  for (const std::int64_t value : values)
    append_number(numbers, static_cast<std::uint32_t>(value), is_wide ? 2 : 1);
  append_element(array, is_wide ? kMatUint16 : kMatUint8, numbers);
}

bool is_wide(std::int64_t value) { return value > 255; }

std::string matrix_array(const MatMatrix& matrix) {
  const bool wide = std::ranges::any_of(matrix.values, is_wide);
  std::string array =
      array_head(wide ? kMatUint16Class : kMatUint8Class, matrix.rows, matrix.columns, matrix.name);
  append_values(array, matrix.values, wide);
  return array;
}

std::string text_array(const std::string& text) {
  std::string array = array_head(kMatCharClass, 1, static_cast<std::int64_t>(text.size()), "");
  append_element(array, kMatUtf8, text);
  return array;
}

std::string cell_array(const MatCell& cell) {
  if (const auto* const text = std::get_if<std::string>(&cell)) return text_array(*text);
  const auto* const number = std::get_if<std::int64_t>(&cell);
  const auto count = static_cast<std::int64_t>(number != nullptr);
  std::string array = array_head(kMatDoubleClass, count, count, "");
  append_values(array, number ? std::vector{*number} : std::vector<std::int64_t>{},
                number && is_wide(*number));
  return array;
}

std::string file_of(std::span<const std::string> arrays) {
  std::string file = "MATLAB 5.0 MAT-file, written by Retort";
  file.resize(kMatTextBytes, ' ');
  file.append(kMatVersionAt - kMatTextBytes, '\0');
  append_number(file, 0x0100, 2);
  file += "IM";
  for (const std::string& array : arrays) append_element(file, kMatMatrix, array);
  return file;
}

}  // namespace

std::string mat_file(std::span<const MatMatrix> matrices) {
  std::vector<std::string> arrays;
  for (const MatMatrix& matrix : matrices) arrays.push_back(matrix_array(matrix));
  return file_of(arrays);
}

std::string mat_texts_file(const std::string& name, std::span<const std::string> texts) {
  std::string array = array_head(kMatCellClass, 1, static_cast<std::int64_t>(texts.size()), name);
  for (const std::string& text : texts) append_element(array, kMatMatrix, text_array(text));
  return file_of({&array, 1});
}

std::string mat_records_file(const std::string& name, const MatRecords& records) {
  std::string array =
      array_head(kMatStructClass, 1, static_cast<std::int64_t>(records.rows.size()), name);
  std::string width, names;
  append_number(width, kFieldBytes);
  append_small_element(array, kMatInt32, width);
  for (std::string field : records.fields) {
    field.resize(kFieldBytes, '\0');
    names += field;
  }
  append_element(array, kMatInt8, names);
  for (const std::vector<MatCell>& row : records.rows) {
    for (const MatCell& cell : row) append_element(array, kMatMatrix, cell_array(cell));
  }
  return file_of({&array, 1});
}

}  // namespace stages
