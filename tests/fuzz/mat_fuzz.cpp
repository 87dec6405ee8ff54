// MAT-files: the input as a file, and as the variables of a file, plain and compressed.

#include <zlib.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "stages/data/mat_file.h"
#include "tests/fuzz/fuzz.h"

using namespace stages;

namespace {

void read_lists(const std::string& file) {
  for (const char* const name : {"a", "annotations"}) {
    try {
      const MatRecords records = read_mat_records(file, name);
      for (const auto& row : records.rows)
        require(row.size() == records.fields.size(), "another width", file);
    } catch (const std::invalid_argument&) {
    }
  }
  for (const char* const name : {"a", "class_names"}) {
    try {
      const auto texts = read_mat_texts(file, name);
      const bool is_short =
          std::ranges::all_of(texts, [](const auto& text) { return text.size() < 60'000; });
      if (is_short)
        require(read_mat_texts(mat_texts_file(name, texts), name) == texts, "reads as another",
                file);
    } catch (const std::invalid_argument&) {
    }
  }
}

void read(const std::string& file) {
  read_lists(file);
  for (const char* const name : {"a", "labels"}) {
    MatMatrix matrix;
    try {
      matrix = read_mat(file, name);
    } catch (const std::invalid_argument&) {
      continue;
    }
    require(matrix.values.size() == static_cast<std::size_t>(matrix.rows * matrix.columns),
            "another size", file);
    for (const std::int64_t value : matrix.values) {
      if (value < 0 || value > 0xffff) return;
    }
    const MatMatrix again = read_mat(mat_file(std::array{matrix}), name);
    require(again.values == matrix.values && again.rows == matrix.rows, "reads as another", file);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string input = text_of(bytes, size), head = mat_file({});
  read(input);
  read(head + input);
  std::string packed(compressBound(size), '\0');
  uLongf length = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &length, bytes, size);
  std::string element = {15, 0, 0, 0};
  for (int i = 0; i < 4; ++i) element += static_cast<char>(length >> (8 * i) & 0xff);
  read(head + element + packed.substr(0, length));
  return 0;
}
