#include "stages/data/mat_file.h"

#include <optional>
#include <stdexcept>
#include <utility>

#include "stages/data/mat_elements.h"

namespace stages {
namespace {

[[noreturn]] void refuse_variable(const std::string& what) { throw std::invalid_argument(what); }

/// Appends a character to UTF-8.
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

/// UTF-16 as UTF-8; half a pair becomes U+FFFD.
std::string from_utf16(std::string_view bytes) {
  std::string text;
  const auto unit = [&](std::size_t at) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at])) |
           static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + 1])) << 8;
  };
  const auto is_in = [](std::uint32_t value, std::uint32_t first) { return value >= first && value < first + 0x400; };
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

/// The text in an array of characters; nullopt where it is more than one row.
std::optional<std::string> text_in(MatArray& array, const MatSize& size) {
  const MatElement letters = array.rest.next("the text of a variable");
  if (size.elements > 0 && size.rows != 1) return std::nullopt;
  if (letters.type == kMatUtf16 || letters.type == kMatUint16) return from_utf16(letters.data);
  if (letters.type == kMatUtf8 || letters.type == kMatUint8 || letters.type == kMatInt8)
    return std::string(letters.data);
  return std::nullopt;
}

/// What the next array holds, if it is a text or one whole number.
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
    return {};  // it is not whole
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
  if (array.array_class != kMatCellClass) refuse_variable(what + " is not a list of texts");
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
  const bool is_width = bytes != 0 && width.type == kMatInt32 && width.data.substr(1) == std::string_view("\0\0", 3);
  if (!is_width || names.data.size() % bytes != 0) refuse_variable(what + " has fields without names");
  MatRecords records;
  for (std::size_t at = 0; at < names.data.size(); at += bytes) {
    const std::string_view field = names.data.substr(at, bytes);
    records.fields.emplace_back(field.substr(0, field.find('\0')));
  }
  for (std::int64_t i = 0; i < size.elements && !records.fields.empty(); ++i) {
    std::vector<MatCell>& record = records.rows.emplace_back();
    for (std::size_t field = 0; field < records.fields.size(); ++field) record.push_back(next_cell(array.rest, what));
  }
  return records;
}

}  // namespace stages
