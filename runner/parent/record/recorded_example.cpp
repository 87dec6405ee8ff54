#include "runner/parent/record/recorded_example.h"

#include <optional>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestExampleList = 1 << 20, kLargestExample = 256 << 10;  // bytes
constexpr std::size_t kMostExamples = 100;

/// Returns the text to show with an example image: about a classifier's prediction, or about the
/// captions that a retrieval finds for it.
std::vector<std::string> example_lines(const Json& example, const std::string& name) {
  const JsonFields fields(example, "an example");
  if (!example.contains("caption"))
    return {fields.text("label") + " predicted as " + fields.text("predicted") + ", " +
                percent(fields.number("probability")) + " %",
            name};
  std::vector<std::string> lines = {fields.text("caption") + ": rank " +
                                    std::to_string(fields.integer("rank"))};
  const auto nearest = example.find("nearest");
  if (nearest != example.end() && nearest->is_array()) {
    for (const auto& caption : *nearest)
      if (caption.is_string()) lines.push_back("nearest: " + caption.get<std::string>());
  }
  lines.push_back(name);
  return lines;
}

/// Throws std::runtime_error if the entry is damaged; nullopt if its file is missing or no JPEG.
std::optional<RecordedExample> recorded_example(const std::filesystem::path& folder,
                                                const Json& json) {
  const JsonFields fields(json, "an example");
  const std::string file = fields.text("file");
  if (std::filesystem::path(file).has_parent_path()) return std::nullopt;
  auto jpeg = real_file_system().read(folder / file, kLargestExample);
  if (!jpeg || !jpeg->starts_with("\xFF\xD8")) return std::nullopt;
  std::string name = fields.text("name");
  std::vector<std::string> lines = example_lines(json, name);
  return RecordedExample{fields.text("group"), std::move(name), *std::move(jpeg), std::move(lines)};
}

}  // namespace

std::vector<RecordedExample> recorded_examples(const std::filesystem::path& node) {
  const std::filesystem::path folder = NodeLayout(node).examples();
  const auto list = real_file_system().read(folder / "examples.json", kLargestExampleList);
  const Json json = list ? parse_json<Json>(*list) : Json();
  std::vector<RecordedExample> examples;
  if (!json.is_array()) return examples;
  for (const Json& one : json) {
    if (examples.size() == kMostExamples) break;
    try {
      if (auto example = recorded_example(folder, one)) examples.push_back(*std::move(example));
    } catch (const std::runtime_error&) {
      continue;
    }
  }
  return examples;
}

}  // namespace runner
