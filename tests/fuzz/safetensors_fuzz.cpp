// Headers of safetensors files, preceded by the size of the data; what is parsed is written and
// parsed again.

#include <stdexcept>

#include "stages/weights/safetensors_header.h"
#include "tests/fuzz/fuzz.h"

using namespace stages;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string input = text_of(bytes, size);
  const std::size_t space = input.find(' ');
  if (space == input.npos || space > 18 || input.find_first_not_of("0123456789") != space) return 0;
  const std::int64_t data_bytes = space == 0 ? 0 : std::stoll(input.substr(0, space));
  SafetensorsHeader header;
  try {
    header = parse_safetensors_header(std::string_view(input).substr(space + 1), data_bytes);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  std::int64_t reached = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    require(entry.begin == reached && entry.end >= entry.begin, "a hole or an overlap", input);
    reached = entry.end;
  }
  require(reached == data_bytes, "does not cover the data", input);
  const std::string text = to_text(header);
  require(text.size() % 8 == 0, "is not padded", text);
  require(to_text(parse_safetensors_header(text, data_bytes)) == text, "reads as another", text);
  return 0;
}
