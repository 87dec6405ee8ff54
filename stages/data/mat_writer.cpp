#include "stages/data/mat_writer.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "stages/data/mat_elements.h"

namespace stages {
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

/// The same in eight bytes, for data of 1 to 4. The length of the names of fields must be written so.
void append_small_element(std::string& text, std::uint32_t type, std::string_view data) {
  append_number(text, type | static_cast<std::uint32_t>(data.size()) << 16);
  text += data;
  text.append(4 - data.size(), '\0');
}

/// The head of an array; what it holds follows.
std::string array_head(std::uint32_t array_class, std::int64_t rows, std::int64_t columns, std::string_view name) {
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
  for (const std::int64_t value : values) append_number(numbers, static_cast<std::uint32_t>(value), is_wide ? 2 : 1);
  append_element(array, is_wide ? kMatUint16 : kMatUint8, numbers);
}

bool is_wide(std::int64_t value) { return value > 255; }

std::string matrix_array(const MatMatrix& matrix) {
  const bool wide = std::ranges::any_of(matrix.values, is_wide);
  std::string array = array_head(wide ? kMatUint16Class : kMatUint8Class, matrix.rows, matrix.columns, matrix.name);
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
  append_values(array, number ? std::vector{*number} : std::vector<std::int64_t>{}, number && is_wide(*number));
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
  std::string array = array_head(kMatStructClass, 1, static_cast<std::int64_t>(records.rows.size()), name);
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
