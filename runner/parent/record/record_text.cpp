#include "runner/parent/record/record_text.h"

#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"
#include "runner/shared/disk/file_digests.h"

namespace runner {

std::string record_text(const std::filesystem::path& path) {
  constexpr std::size_t kLargestRecord = 64 << 20;
  return real_file_system().read(path, kLargestRecord).value_or("");
}

nlohmann::ordered_json record_from_yaml(const std::filesystem::path& path) {
  const SourceText text{path.string(), record_text(path)};
  if (text.contents.empty()) return {};
  const auto value = read_yaml(text);
  return value ? to_json(*value) : nlohmann::ordered_json();
}

}  // namespace runner
