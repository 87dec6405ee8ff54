// Lines of the worker's protocol; what is read is written and read again.

#include "runner/shared/protocol/event.h"
#include "tests/fuzz/fuzz.h"

using namespace runner;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string line;
  try {
    line = to_line(event_from_line(text_of(bytes, size)));
  } catch (const std::exception&) {  // what the parent reports as a broken protocol
    return 0;
  }
  require(to_line(event_from_line(line)) == line, "reads as another", line);
  return 0;
}
