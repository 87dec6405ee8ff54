// Lines of the worker's protocol; what is parsed is written and parsed again.

#include "runner/shared/protocol/event.h"
#include "tests/fuzz/fuzz.h"

using namespace runner;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string line;
  try {
    line = to_line(event_from_line(text_of(bytes, size)));
  } catch (const std::exception&) {  // the parent reports these as a broken protocol
    return 0;
  }
  require(to_line(event_from_line(line)) == line, "reads as another", line);
  return 0;
}
