// The override parser; what is parsed is written and parsed again.

#include "runner/parent/config/override.h"
#include "tests/fuzz/fuzz.h"

using namespace runner;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const SourceText source{"override 1", text_of(bytes, size)};
  const Result<Override> read = parse_override(source);
  if (!read || !read->value) return 0;
  const SourceText again{"override 2", override_text(*read)};
  const Result<Override> reread = parse_override(again);
  require(reread && reread->value, "does not read again", again.contents);
  require(reread->key == read->key && same(*reread->value, *read->value), "reads as another",
          again.contents);
  return 0;
}
