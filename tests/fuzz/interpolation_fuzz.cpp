// Interpolations: the input is a YAML document that may contain them.

#include "runner/parent/config/interpolation.h"
#include "runner/parent/config/yaml_reader.h"
#include "tests/fuzz/fuzz.h"

using namespace runner;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const SourceText source{"a.yaml", text_of(bytes, size)};
  const Result<Value> read = read_yaml(source);
  if (!read || !read->map()) return 0;
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "TOKEN") return "secret";
    return name.size() < 3 ? std::optional(name + "${a}") : std::nullopt;
  };
  Diagnostics errors;
  resolve_interpolations(*read, {kWithoutSchema, environment, {}}, errors);
  return 0;
}
