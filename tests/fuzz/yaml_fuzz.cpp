// The YAML reader; what is parsed is written and parsed again.

#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/config/yaml_writer.h"
#include "tests/fuzz/fuzz.h"

using namespace runner;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const SourceText source{"a.yaml", text_of(bytes, size)};
  Diagnostics warnings;
  const Result<Value> read = read_yaml(source, &warnings);
  if (!read) return 0;
  const SourceText again{"again.yaml", write_yaml(*read)};
  const Result<Value> reread = read_yaml(again);
  require(reread && same(*reread, *read), "reads as another", again.contents);
  return 0;
}
